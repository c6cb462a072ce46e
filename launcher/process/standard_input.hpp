// Determines whether a worker may read the standard input of this process.
#pragma once

namespace ddprun {

enum class InputKind {
  readable,  ///< file, pipe or device
  terminal,  ///< terminal with this process in the foreground
  /// Terminal with another job in the foreground: a worker would read that job's input, since it
  /// has its own session and is not stopped by the kernel. Or a descriptor that is not open for
  /// reading, such as that of nohup.
  unreadable,
};

/// Returns the current kind: a shell may move the process to the background and back.
InputKind standard_input_kind() noexcept;

}  // namespace ddprun
