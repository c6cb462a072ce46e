// Variants of write(2) and ftruncate(2) that report a closed reader or an exceeded file size limit
// only by their results, and not by signals. Thread-safe.
#pragma once

#include <cstddef>
#include <sys/types.h>

namespace ddprun {

/// Like write(2), but EPIPE does not raise SIGPIPE and EFBIG does not raise SIGXFSZ (see ulimit
/// -f), regardless of the program's handling of these signals.
ssize_t quiet_write(int fd, const void* bytes, std::size_t count) noexcept;

/// Like ftruncate(2), but without SIGXFSZ. The limit also applies to memory files.
int quiet_truncate(int fd, off_t bytes) noexcept;

}  // namespace ddprun
