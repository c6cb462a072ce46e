// Time limits of requests to etcd.
#pragma once

#include <ddprun/deadline.hpp>

#include <chrono>

namespace ddprun::etcd {

/// Timeout of a request while searching for or electing a coordinator; failed requests are retried.
inline constexpr auto kRequestTimeout = std::chrono::seconds(5);

/// Timeout of revoking a lease, which otherwise expires by itself.
inline constexpr auto kRevocationTimeout = std::chrono::seconds(1);

inline Deadline request_deadline() {
  return Deadline::after(kRequestTimeout);
}

inline Deadline revocation_deadline() {
  return Deadline::after(kRevocationTimeout);
}

}  // namespace ddprun::etcd
