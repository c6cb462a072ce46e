// The settings of a rendezvous through etcd, beyond those of the run's membership.
#pragma once

#include "rendezvous/security/tls.hpp"
#include <ddprun/store.hpp>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ddprun::etcd {

struct EtcdSettings {
  std::vector<StoreEndpoint> endpoints;     ///< of its clients' interface
  std::optional<security::TlsFiles> tls{};  ///< nothing: no TLS
  std::string prefix = "/ddprun";           ///< of all keys
  /// How long the coordinator may be without etcd. Another one is elected when it is over.
  std::chrono::seconds lease{3};
  /// By which the others reach this node; empty: the address by which it reaches etcd.
  std::string local_addr{};
  std::uint16_t port = 0;  ///< of coordinator and store, if this node has them; 0: any

  bool operator==(const EtcdSettings&) const = default;
};

/// etcd gives no shorter one, unless it was told to hurry.
inline constexpr std::chrono::seconds kLeaseMin(2);

}  // namespace ddprun::etcd
