#include "launcher/ssh/node_results.hpp"

#include "launcher/report/exit_code.hpp"
#include "rendezvous/base/signal_name.hpp"

#include <algorithm>

namespace ddprun::ssh {

namespace {

using Action = SshDecision::Action;
using State = NodeResult::State;

/// All have been told of when they came; the last line is for those that are read first.
constexpr std::size_t kLossesMax = 4;

bool is_alive(const NodeResult& node) {
  return node.state == State::starting || node.state == State::running;
}

/// It will never meet the others: ddprun was not started there, or would not run what it was told.
bool never_came(const NodeResult& node) {
  return node.state == State::not_started || (node.state == State::ended && node.has_refused);
}

int code_of(const NodeResult& node) {
  return node.exit_code < 0 ? kExitSignalBase - node.exit_code : node.exit_code;
}

/// Its agent has said how the run ended.
bool has_verdict(const NodeResult& node) {
  return node.state == State::ended && node.exit_code >= 0 && !node.has_refused;
}

/// All nodes that stay to the end have the same. The host is the last to leave.
int exit_code_of(const RunFacts& facts) {
  if (facts.host && has_verdict(facts.nodes[*facts.host])) {
    return facts.nodes[*facts.host].exit_code;
  }
  const NodeResult* last = nullptr;
  for (const auto& node : facts.nodes) {
    if (node.state != State::ended) continue;
    const bool is_better = last == nullptr || has_verdict(node) > has_verdict(*last) ||
                           (has_verdict(node) == has_verdict(*last) && node.order > last->order);
    if (is_better) last = &node;
  }
  if (last != nullptr) return code_of(*last);
  return facts.interrupted_by != 0 ? kExitSignalBase + facts.interrupted_by : kExitFailure;
}

/// Why the run has not come about.
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

SshDecision decide(const RunFacts& facts) {
  const auto alive =
      static_cast<std::size_t>(std::count_if(facts.nodes.begin(), facts.nodes.end(), is_alive));
  const bool has_absent = std::any_of(facts.nodes.begin(), facts.nodes.end(), never_came);
  const bool has_ended =
      std::any_of(facts.nodes.begin(), facts.nodes.end(), [](const NodeResult& node) {
        return (node.state == State::ended || node.state == State::lost) && !never_came(node);
      });
  const bool lacks_host = facts.host && never_came(facts.nodes[*facts.host]);
  if (alive == 0) {
    const int code = exit_code_of(facts);
    // Who was stopped since others are missing says only that it was stopped.
    const bool says_little =
        facts.is_cut_short && facts.interrupted_by == 0 && code >= kExitSignalBase;
    return {Action::finish, "", says_little ? code_of_absence(facts) : code};
  }
  if (facts.interrupted_by != 0) return {};
  if (lacks_host) {
    return {Action::stop, "the rendezvous host " + facts.host_name + " could not be started"};
  }
  if (alive >= facts.nodes_min) return {};
  const auto reason = "only " + count_of(alive) + " of at least " +
                      std::to_string(facts.nodes_min) + " can take part";
  return {has_absent && !has_ended ? Action::stop : Action::stop_later, reason};
}

std::string describe_end(const RunFacts& facts, const std::string& stop_reason,
                         const std::vector<std::string>& losses) {
  if (facts.interrupted_by != 0) {
    const bool is_told = std::any_of(facts.nodes.begin(), facts.nodes.end(), has_verdict);
    return is_told ? "" : "it was asked to stop by " + signal_name(facts.interrupted_by);
  }
  if (!facts.is_cut_short) return {};
  auto text = stop_reason;
  const auto shown = std::min(losses.size(), kLossesMax);
  for (std::size_t i = 0; i < shown; ++i) text += "; " + losses[i];
  if (shown < losses.size()) text += "; and " + count_of(losses.size() - shown) + " more";
  return text;
}

}  // namespace ddprun::ssh
