// What the options about nodes and rendezvous mean on one node, and which of them cannot be obeyed
// there: those are refused, never ignored. Pure.
#pragma once

#include "launcher/cli/launch_options.hpp"
#include "launcher/plan/rdzv_conf.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace ddprun {

/// Where the store listens.
struct StoreAddress {
  std::string host = "127.0.0.1";
  std::uint16_t port = 0;                                   ///< 0: the kernel chooses
  std::optional<std::uint16_t> worker_port = std::nullopt;  ///< if the workers host their own

  bool operator==(const StoreAddress&) const = default;
};

/// Appends to `problems` what torchrun offers and no plan can do, and to `warnings` what has no
/// effect.
void check_unsupported(const LaunchOptions& options, std::vector<std::string>& problems,
                       std::vector<std::string>& warnings);

/// Appends to `problems` what cannot be done on one node, and to `notes` what has no effect.
void check_single_node(const LaunchOptions& options, const RdzvConf& conf,
                       std::vector<std::string>& problems, std::vector<std::string>& notes);

/// torchrun's order of precedence: --standalone, then the options of the backend. Where the workers
/// host a store of their own, --master_port is theirs.
StoreAddress store_address(const LaunchOptions& options, bool uses_agent_store);

}  // namespace ddprun
