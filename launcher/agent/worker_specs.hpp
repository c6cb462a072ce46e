// From the plan and the facts of an attempt to the processes to start. Pure.
#pragma once

#include "launcher/plan/launch_plan.hpp"
#include "launcher/process/standard_input.hpp"
#include "launcher/process/worker_group.hpp"
#include "rendezvous/base/hmac.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ddprun {

/// This node among those of the round.
struct NodePlacement {
  int node_rank = 0;
  int node_count = 1;
  int first_rank = 0;
  int world_size = 0;
  int first_role_rank = 0;
  int role_world_size = 0;
  std::string master_addr{};  ///< by which the workers reach the store
};

/// That of the only node.
NodePlacement alone(const LaunchPlan& plan);

/// What an attempt adds to the plan.
struct AttemptFacts {
  int attempt = 0;                    ///< the round's number
  int restart_count = 0;              ///< restarts after failures, those of other nodes included
  bool have_workers_started = false;  ///< on this node, in an earlier attempt
  NodePlacement placement{};
  std::uint16_t store_port = 0;                    ///< of the agent's store
  std::optional<std::uint16_t> worker_store_port;  ///< if the workers host a store of their own
  std::optional<Digest> run_key{};  ///< handed to the workers; nothing: the run has no secret
  int control_page_fd = -1;
  std::vector<HeldPath> worker_folders;  ///< by local rank
  // Of this process.
  InputKind standard_input = InputKind::unreadable;
  std::optional<TerminalSize> output_terminal{}, error_terminal{};  ///< standard output and error
};

/// Whether the worker of this rank has the standard input of this process.
bool has_standard_input(const LaunchPlan& plan, const AttemptFacts& facts, int rank);

std::vector<WorkerSpec> make_worker_specs(const LaunchPlan& plan, const AttemptFacts& facts);

}  // namespace ddprun
