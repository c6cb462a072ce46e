// What the standard input of this process is to a worker that would read it.
#pragma once

namespace ddprun {

enum class InputKind {
  readable,  ///< a file, a pipe, a device
  terminal,  ///< this process is in its foreground
  /// A terminal of another job, whose input a worker would take (it is in a session of its own, so
  /// the kernel does not stop it); or a descriptor that cannot be read, as nohup opens it.
  withheld,
};

/// As it is now: the shell may move the process to the background and back.
InputKind standard_input_kind() noexcept;

}  // namespace ddprun
