// Checks the options for nodes and rendezvous in a single-node run, and chooses the store's
// address. No option is ignored without a message. Pure.
#pragma once

#include "launcher/cli/launch_options.hpp"
#include "launcher/plan/rdzv_conf.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace ddprun {

/// Address on which the store listens.
struct StoreAddress {
  std::string host = "127.0.0.1";
  std::uint16_t port = 0;                                   ///< 0: the kernel chooses
  std::optional<std::uint16_t> worker_port = std::nullopt;  ///< port of a store of the workers

  bool operator==(const StoreAddress&) const = default;
};

/// Appends torchrun options that are not supported to `problems`, and options without effect to
/// `warnings`.
void check_unsupported(const LaunchOptions& options, std::vector<std::string>& problems,
                       std::vector<std::string>& warnings);

/// Appends options that are impossible on one node to `problems`, and options without effect to
/// `warnings` if they are meant for several nodes, otherwise to `notes`.
void check_single_node(const LaunchOptions& options, const RdzvConf& conf,
                       std::vector<std::string>& problems, std::vector<std::string>& warnings,
                       std::vector<std::string>& notes);

/// Returns the store's address with torchrun's precedence: --standalone, then the backend's
/// options. If the workers host a store, --master_port is its port.
StoreAddress store_address(const LaunchOptions& options, bool uses_agent_store);

}  // namespace ddprun
