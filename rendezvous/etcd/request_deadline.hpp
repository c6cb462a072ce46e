// Time limits of requests to etcd.
#pragma once

#include <ddprun/deadline.hpp>

#include <chrono>

namespace ddprun::etcd {

/// For one request while a coordinator is searched for or elected; a failed attempt is repeated.
inline constexpr auto kRequestTimeout = std::chrono::seconds(5);

/// For a lease that expires by itself if it cannot be revoked in this time.
inline constexpr auto kRevocationTimeout = std::chrono::seconds(1);

inline Deadline request_deadline() {
  return Deadline::after(kRequestTimeout);
}

inline Deadline revocation_deadline() {
  return Deadline::after(kRevocationTimeout);
}

}  // namespace ddprun::etcd
