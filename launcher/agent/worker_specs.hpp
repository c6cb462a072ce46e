// Derives the processes to start from the plan and the facts of an attempt. Pure.
#pragma once

#include "launcher/plan/launch_plan.hpp"
#include "launcher/process/standard_input.hpp"
#include "launcher/process/worker_group.hpp"
#include "rendezvous/base/hmac.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace ddprun {

/// Position of this node in the round.
struct NodePlacement {
  int node_rank = 0;
  int node_count = 1;
  int first_rank = 0;
  int world_size = 0;
  int first_role_rank = 0;
  int role_world_size = 0;
  std::string master_addr{};                   ///< address at which the workers reach the store
  std::map<std::string, std::string> peers{};  ///< names of other nodes by numeric address
};

/// Returns the placement of a single node.
NodePlacement single_node_placement(const LaunchPlan& plan);

/// Data of an attempt that is not in the plan.
struct AttemptFacts {
  int attempt = 0;                       ///< number of the round
  int restart_count = 0;                 ///< restarts after failures on any node
  std::optional<int> restarts_left = 0;  ///< nullopt: no fixed limit
  bool have_workers_started = false;     ///< on this node, in an earlier attempt
  NodePlacement placement{};
  std::uint16_t store_port = 0;                    ///< port of the agent's store
  std::optional<std::uint16_t> worker_store_port;  ///< port of a store of the workers
  std::optional<Digest> run_key{};  ///< passed to the workers; nullopt in an open run
  int control_page_fd = -1;
  std::vector<HeldPath> worker_folders;  ///< folders by local rank
  // Facts about the agent's process.
  InputKind standard_input = InputKind::unreadable;
  std::optional<TerminalSize> output_terminal{}, error_terminal{};  ///< standard output and error
};

/// Returns true if the worker with this rank inherits the agent's standard input.
bool has_standard_input(const LaunchPlan& plan, const AttemptFacts& facts, int rank);

std::vector<WorkerSpec> make_worker_specs(const LaunchPlan& plan, const AttemptFacts& facts);

}  // namespace ddprun
