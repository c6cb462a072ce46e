#include "launcher/ssh/node_results.hpp"

#include "launcher/report/exit_code.hpp"
#include "rendezvous/base/signal_name.hpp"

#include <algorithm>

namespace ddprun::ssh {

namespace {

using Action = Decision::Action;
using State = NodeResult::State;

/// Losses in the last line. Each loss has been shown when it occurred.
constexpr std::size_t kLossesMax = 4;

bool is_alive(const NodeResult& node) {
  return node.state == State::starting || node.state == State::running;
}

/// Returns true if the node cannot join the run: its agent did not start, or rejected its options.
bool is_absent(const NodeResult& node) {
  return node.state == State::not_started || (node.state == State::ended && node.has_refused);
}

int code_of(const NodeResult& node) {
  return node.exit_code < 0 ? kExitSignalBase - node.exit_code : node.exit_code;
}

/// Returns true if the exit code of the node is the run's.
bool has_run_exit_code(const NodeResult& node) {
  return node.state == State::ended && node.exit_code >= 0 && !node.has_refused;
}

/// Nodes that stay to the end have the same exit code. The host leaves last.
int exit_code_of(const RunFacts& facts) {
  if (facts.host && has_run_exit_code(facts.nodes[*facts.host])) {
    return facts.nodes[*facts.host].exit_code;
  }
  const NodeResult* last = nullptr;
  for (const auto& node : facts.nodes) {
    if (node.state != State::ended) continue;
    const bool is_better =
        last == nullptr || has_run_exit_code(node) > has_run_exit_code(*last) ||
        (has_run_exit_code(node) == has_run_exit_code(*last) && node.order > last->order);
    if (is_better) last = &node;
  }
  if (last != nullptr) return code_of(*last);
  return facts.interrupted_by != 0 ? kExitSignalBase + facts.interrupted_by : kExitFailure;
}

/// Exit code of a run that was stopped because nodes were missing.
int code_of_absence(const RunFacts& facts) {
  const bool is_usage = std::any_of(facts.nodes.begin(), facts.nodes.end(), [](const auto& node) {
    return node.state == State::ended && node.has_refused && node.exit_code == kExitUsage;
  });
  return is_usage ? kExitUsage : kExitFailure;
}

std::string count_of(std::size_t nodes) {
  return std::to_string(nodes) + (nodes == 1 ? " node" : " nodes");
}

}  // namespace

Decision decide(const RunFacts& facts) {
  const auto alive =
      static_cast<std::size_t>(std::count_if(facts.nodes.begin(), facts.nodes.end(), is_alive));
  const bool has_absent = std::any_of(facts.nodes.begin(), facts.nodes.end(), is_absent);
  const bool has_ended =
      std::any_of(facts.nodes.begin(), facts.nodes.end(), [](const NodeResult& node) {
        return (node.state == State::ended || node.state == State::lost) && !is_absent(node);
      });
  const bool lacks_host = facts.host && is_absent(facts.nodes[*facts.host]);
  if (alive == 0) {
    const int code = exit_code_of(facts);
    // Nodes that were stopped because others are missing have the exit code of the signal.
    const bool is_of_stop =
        facts.is_cut_short && facts.interrupted_by == 0 && code >= kExitSignalBase;
    return {Action::finish, "", is_of_stop ? code_of_absence(facts) : code};
  }
  if (facts.interrupted_by != 0) return {};
  if (lacks_host) {
    return {Action::stop, "the rendezvous host " + facts.host_name + " could not be started"};
  }
  if (alive >= facts.nodes_min) return {};
  const auto reason = "only " + std::to_string(alive) + " of the required " +
                      std::to_string(facts.nodes_min) + " nodes " + (alive == 1 ? "is" : "are") +
                      " available";
  return {has_absent && !has_ended ? Action::stop : Action::stop_later, reason};
}

std::optional<std::string> describe_end(const RunFacts& facts, const std::string& stop_reason,
                                        const std::vector<std::string>& losses) {
  if (facts.interrupted_by != 0) {
    if (std::any_of(facts.nodes.begin(), facts.nodes.end(), has_run_exit_code)) return std::nullopt;
    return "it was asked to stop by " + signal_name(facts.interrupted_by);
  }
  if (!facts.is_cut_short) return std::nullopt;
  auto text = stop_reason;
  const auto shown = std::min(losses.size(), kLossesMax);
  for (std::size_t i = 0; i < shown; ++i) text += "; " + losses[i];
  if (shown < losses.size()) text += "; and " + count_of(losses.size() - shown) + " more";
  return text;
}

}  // namespace ddprun::ssh
