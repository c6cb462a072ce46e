// write(2) that tells of a reader that has gone by its result alone. Any thread.
#pragma once

#include <cstddef>
#include <sys/types.h>

namespace ddprun {

/// As write(2), but EPIPE comes without SIGPIPE, whatever the program has decided about that
/// signal.
ssize_t quiet_write(int fd, const void* bytes, std::size_t count) noexcept;

}  // namespace ddprun
