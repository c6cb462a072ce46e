// Settings of a rendezvous through etcd, in addition to the run's Settings.
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
  std::vector<StoreEndpoint> endpoints;     ///< client endpoints of etcd
  std::optional<security::TlsFiles> tls{};  ///< nullopt: no TLS
  std::string prefix = "/ddprun";           ///< prefix of all keys
  /// Time for which the coordinator may be disconnected from etcd before another is elected.
  std::chrono::seconds lease{3};
  /// Address at which other nodes reach this node; empty: local address of the etcd connection.
  std::string local_addr{};
  std::uint16_t port = 0;  ///< port of the coordinator and store on this node; 0: any

  bool operator==(const EtcdSettings&) const = default;
};

/// Minimum lease that etcd grants with its default settings.
inline constexpr std::chrono::seconds kLeaseMin(2);

}  // namespace ddprun::etcd
