// What one store server takes on at most. What a single request may hold is in
// rendezvous/wire/limits.hpp.
#pragma once

#include <cstddef>

namespace ddprun {

struct StoreLimits {
  /// Ten times what 1,024 workers with legacy clients (two connections each) need.
  std::size_t connections_max = 20'480;

  /// Keys, values, queues, waits, half-received requests and unread replies together. What workers
  /// exchange is a few MiB; beyond this something leaks.
  std::size_t bytes_max = std::size_t{1} << 30;

  /// Pairs of a client and a key that it waits for or watches: two of the largest WAIT requests.
  std::size_t waits_max = 262'144;

  /// Bytes of replies that a client has not read. One reply must fit: eight of the largest values.
  std::size_t unread_bytes_max = std::size_t{64} << 20;
};

}  // namespace ddprun
