// Parses --rdzv_conf into typed values. Accepts torchrun's keys and additional keys. Pure.
#pragma once

#include "rendezvous/etcd/settings.hpp"
#include "rendezvous/membership/settings.hpp"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace ddprun {

struct RdzvConf {
  membership::Settings settings;  ///< only timeouts are set
  etcd::EtcdSettings etcd;        ///< only prefix, lease and TLS are set
  std::optional<bool> is_host;
  std::optional<int> rank;
  bool checks_users = true;  ///< the store refuses other users of this machine
};

/// Returns the values. Appends invalid values to `problems`.
RdzvConf read_rdzv_conf(const std::map<std::string, std::string>& values,
                        std::vector<std::string>& problems);

}  // namespace ddprun
