#include "launcher/agent/placement.hpp"

#include "launcher/agent/blame.hpp"
#include "launcher/config/identity.hpp"
#include "launcher/report/event_text.hpp"
#include "launcher/report/exit_code.hpp"
#include "rendezvous/base/endpoint.hpp"
#include "rendezvous/base/signal_name.hpp"
#include "rendezvous/base/text.hpp"
#include "rendezvous/membership/bounds.hpp"
#include "rendezvous/membership/command.hpp"

#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>

namespace ddprun {

namespace {

/// Returns the names of the other nodes by address. An address that several nodes have is left out,
/// and so are nodes without one. The host of the rendezvous often has none: it connects to itself
/// through the loopback interface. `host`: address at which this node has reached it.
std::map<std::string, std::string> peers_of(const membership::RoundFormed& round,
                                            const std::string& host) {
  const auto rank = static_cast<std::size_t>(round.node_rank);
  const auto& own = round.nodes[rank].address;
  std::map<std::string, int> nodes;
  std::map<std::string, std::string> names;
  for (std::size_t i = 0; i < round.nodes.size(); ++i) {
    std::string address = round.nodes[i].address;
    if (address.empty() && round.nodes[i].is_host && !own.empty()) address = host;
    if (address.empty()) continue;
    ++nodes[address];
    if (i != rank) names[address] = round.nodes[i].name;
  }
  std::erase_if(names, [&](const auto& entry) { return nodes.at(entry.first) > 1; });
  return names;
}

/// Maximum number of failures of one node: a collective error fails all of its workers, and the
/// report lists only a few.
constexpr std::size_t kNodeFailuresMax = 16;

/// Maximum bytes of each text of an exit, so that all failures of a node fit into one message.
constexpr std::size_t kTextBytesMax = 4 * 1024;

/// Returns the exit with bounded texts. Unless `is_first`, omits those that reports show for the
/// first failure only.
WorkerExited shortened(WorkerExited exit, bool is_first) {
  if (!is_first) {
    exit.error_traceback.clear();
    exit.hint.clear();
    exit.last_lines.clear();
  }
  for (auto* text :
       {&exit.ended_before, &exit.hung, &exit.error_message, &exit.error_traceback, &exit.hint})
    membership::cut(*text, kTextBytesMax);
  if (exit.still_running) membership::cut(*exit.still_running, kTextBytesMax);
  for (auto& line : exit.last_lines) membership::cut(line, kTextBytesMax);
  return exit;
}

WorkerExited exit_of(const membership::Failure& failure) {
  if (failure.exit) return *failure.exit;
  WorkerExited exit;
  exit.rank = failure.rank;
  exit.node = failure.node;
  exit.exit_code = 1;
  exit.ran_seconds = failure.ran_seconds;
  exit.error_message = failure.description;
  return exit;
}

}  // namespace

membership::Settings membership_settings(const LaunchPlan& plan) {
  if (plan.nodes) return plan.nodes->settings;
  membership::Settings settings;
  settings.restarts = restart_settings(plan.options);
  settings.lease = settings.probe_timeout = std::chrono::milliseconds(0);
  return settings;
}

membership::Join make_join(const LaunchPlan& plan, std::uint64_t instance, bool is_host) {
  if (!plan.nodes) {
    return {.instance = instance,
            .local_world_size = static_cast<int>(plan.workers.size()),
            .max_restarts = plan.options.max_restarts,
            .is_host = true};
  }
  const NodesPlan& nodes = *plan.nodes;
  return {.run_id = plan.run_id,
          .name = nodes.name,
          .instance = instance,
          .node_rank = nodes.node_rank,
          .local_world_size = static_cast<int>(plan.workers.size()),
          .role = plan.options.role,
          .nodes_min = nodes.settings.nodes_min,
          .nodes_max = nodes.settings.nodes_max,
          .max_restarts = plan.options.max_restarts,
          .is_host = is_host,
          .config_hash = plan.options.from_config.hash,
          .command = membership::bounded_command(nodes.command)};
}

std::string store_text(const LaunchPlan& plan, std::uint16_t port) {
  const auto endpoint = to_string(StoreEndpoint{plan.store_host, port});
  if (!plan.nodes || !plan.nodes->etcd) return endpoint;
  std::vector<std::string> endpoints;
  for (const auto& each : plan.nodes->etcd->endpoints) {
    endpoints.push_back(to_string(each));
  }
  return "the node that is elected through etcd at " + join(endpoints, ", ");
}

void explain(membership::Refused& refused, const std::string& config_outline) {
  if (refused.config.empty()) return;
  const auto difference = first_difference(config_outline, refused.config);
  if (!difference.empty()) refused.reason += "; it differs first in " + difference;
}

NodePlacement make_placement(const membership::RoundFormed& round, const std::string& store_host) {
  NodePlacement placement{.node_rank = round.node_rank,
                          .node_count = static_cast<int>(round.nodes.size()),
                          .master_addr = store_host,
                          .peers = peers_of(round, store_host)};
  const auto& role = round.nodes[static_cast<std::size_t>(round.node_rank)].role;
  for (int i = 0; i < placement.node_count; ++i) {
    const auto& node = round.nodes[static_cast<std::size_t>(i)];
    const bool is_same_role = node.role == role;
    if (i < round.node_rank) {
      placement.first_rank += node.local_world_size;
      placement.first_role_rank += is_same_role ? node.local_world_size : 0;
    }
    placement.world_size += node.local_world_size;
    placement.role_world_size += is_same_role ? node.local_world_size : 0;
  }
  return placement;
}

/// Returns the workers that exited with code 0 before any worker failed. The workers of other nodes
/// may fail because of them.
std::vector<membership::Failure> early_exits_of(const AttemptEnd& end, const std::string& node) {
  std::vector<membership::Failure> exits;
  for (auto exit : end.exits) {
    const bool is_early = !exit.failed() && !exit.was_stopped;
    if (!is_early || exits.size() == membership::kEarlyExitsMax) break;
    exit.ended_before = "on node " + node + " " + kBeforeTheOthers;
    exit.node = node;
    exits.push_back({.rank = exit.rank,
                     .ran_seconds = exit.ran_seconds,
                     .description = describe_failure(exit),
                     .node = node,
                     .exit = shortened(exit, true)});
  }
  return exits;
}

/// Returns the failure's description. Ranks that hung together are named together.
std::string description_of(const WorkerExited& exit, const std::vector<WorkerExited>& failures) {
  std::vector<int> hung;
  for (const auto& other : failures) {
    if (!other.hung.empty()) hung.push_back(other.rank);
  }
  if (exit.hung.empty() || hung.size() < 2) return describe_failure(exit);
  return ranks_phrase(hung) + " hung";
}

membership::OwnWorkersEnded make_end(const AttemptEnd& end, const LaunchPlan& plan) {
  const std::string node = plan.nodes ? plan.nodes->name : std::string();
  membership::OwnWorkersEnded ended{.still_running = end.still_running};
  if (end.not_started) {
    ended.not_started = (plan.nodes ? node + ": " : "") + end.not_started->message;
  }
  ended.have_succeeded =
      !end.not_started && std::none_of(end.exits.begin(), end.exits.end(),
                                       [](const WorkerExited& exit) { return exit.failed(); });
  const auto failures = failures_root_cause_first(end.exits);
  for (auto exit : failures) {
    // Stopped workers count as failures only if no other node can be the cause.
    const bool is_elsewhere = exit.was_stopped && plan.nodes;
    if (is_elsewhere || ended.failures.size() == kNodeFailuresMax) continue;
    exit.node = node;
    ended.failures.push_back(
        {.rank = exit.rank,
         .is_victim = is_victim_of_a_peer(exit),
         .ran_seconds = exit.ran_seconds,
         .description = description_of(exit, failures) + (plan.nodes ? " on node " + node : ""),
         .node = node,
         .exit = shortened(exit, ended.failures.empty())});
  }
  if (plan.nodes) ended.early_exits = early_exits_of(end, node);
  ended.flights = end.flights;
  if (end.is_final) ended.no_restart = "no restart, because --on_hang is stop";
  if (end.still_running && !failures.empty() && !plan.nodes) {
    ended.no_restart = failures.front().still_running ? "no restart beside it"
                                                      : "no restart, because " + *end.still_running;
  }
  return ended;
}

RunFinished make_run_finished(const membership::RunOutcome& outcome, const LaunchPlan& plan,
                              const AttemptEnd* only, const std::string& advice) {
  RunFinished finished{.result = outcome.result,
                       .scope = outcome.scope,
                       .attempts = outcome.rounds,
                       .reason = outcome.reason,
                       .failures = {},
                       .is_of_many = only == nullptr};
  if (only != nullptr) {
    finished.failures = failures_root_cause_first(only->exits);
    finished.stalled = find_stalled_collectives(only->flights);
    if (outcome.result == RunResult::interrupted)
      finished.reason = "interrupted by " + signal_name(outcome.signal);
  } else {
    for (const auto& failure : outcome.failures) finished.failures.push_back(exit_of(failure));
    finished.stalled = find_stalled_collectives(outcome.flights);
  }
  finished.reason += advice;
  finished.exit_code =
      exit_code_for(finished.result, plan.options.exit_code, finished.failures, outcome.signal);
  return finished;
}

}  // namespace ddprun
