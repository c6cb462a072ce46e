// write(2) and ftruncate(2) that report a closed reader, and a file over its size limit, only by
// their results, not by signals. Any thread.
#pragma once

#include <cstddef>
#include <sys/types.h>

namespace ddprun {

/// As write(2), but EPIPE comes without SIGPIPE and EFBIG without SIGXFSZ (see ulimit -f), whatever
/// the program has decided about these signals.
ssize_t quiet_write(int fd, const void* bytes, std::size_t count) noexcept;

/// As ftruncate(2), likewise. The limit holds for memory files, too.
int quiet_truncate(int fd, off_t bytes) noexcept;

}  // namespace ddprun
