#include "launcher/process/standard_input.hpp"

#include <fcntl.h>
#include <unistd.h>

namespace ddprun {

InputKind standard_input_kind() noexcept {
  const int flags = ::fcntl(STDIN_FILENO, F_GETFL);
  if (flags < 0 || (flags & O_ACCMODE) == O_WRONLY) return InputKind::unreadable;
  if (::isatty(STDIN_FILENO) == 0) return InputKind::readable;
  // tcgetpgrp() fails for a terminal that is not the controlling terminal of this process.
  const bool is_in_foreground = ::tcgetpgrp(STDIN_FILENO) == ::getpgrp();
  return is_in_foreground ? InputKind::terminal : InputKind::unreadable;
}

}  // namespace ddprun
