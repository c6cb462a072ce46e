// Whether a worker may read the standard input of this process.
#pragma once

namespace ddprun {

enum class InputKind {
  readable,  ///< a file, a pipe, a device
  terminal,  ///< a terminal in whose foreground this process is
  /// A terminal with another job in the foreground: a worker, which has a session of its own and is
  /// not stopped by the kernel, would read that job's input. Or a descriptor that is not open for
  /// reading, such as nohup's.
  unreadable,
};

/// The kind at this moment: a shell may move the process to the background and back.
InputKind standard_input_kind() noexcept;

}  // namespace ddprun
