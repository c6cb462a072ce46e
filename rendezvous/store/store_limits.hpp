// Limits of a store server. Limits of a single request are in rendezvous/wire/limits.hpp.
#pragma once

#include <cstddef>

namespace ddprun {

struct StoreLimits {
  /// Maximum connections: ten times those of 1,024 workers with legacy clients (two each).
  std::size_t connections_max = 20'480;

  /// Maximum bytes of keys, values, queues, waits, incomplete requests and unread replies. Workers
  /// exchange a few MiB.
  std::size_t bytes_max = std::size_t{1} << 30;

  /// Pairs of a client and a key that it waits for or watches: two of the largest WAIT requests.
  std::size_t waits_max = 262'144;

  /// Maximum bytes of unread replies to a client; must hold one reply (eight of the largest
  /// values).
  std::size_t unread_bytes_max = std::size_t{64} << 20;
};

}  // namespace ddprun
