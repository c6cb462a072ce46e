#include "rendezvous/membership/notices.hpp"

#include <algorithm>
#include <utility>

namespace ddprun::membership {

namespace {

std::string at_most(Time::duration time) {
  return seconds_text(std::chrono::ceil<std::chrono::seconds>(time)) + " at most";
}

/// Returns text that begins with "; ", or empty.
std::string describe_missing(const std::vector<std::string>& present,
                             const std::vector<std::string>& last_round, const Settings& settings) {
  const bool is_first = last_round.empty();
  auto missing = is_first ? settings.expected_nodes : last_round;
  bool are_known = true;
  for (const auto& name : present) {
    const auto found = std::find(missing.begin(), missing.end(), name);
    if (found != missing.end())
      missing.erase(found);
    else
      are_known = false;
  }
  // Nodes with unexpected names may be the ones that seem to be missing.
  if (missing.empty() || (is_first && !are_known)) return {};
  if (is_first) return "; missing: " + listed(missing);
  const bool is_one = missing.size() == 1;
  return "; " + listed(missing) + (is_one ? " was" : " were") + " in the last round and " +
         (is_one ? "has" : "have") + " not come back";
}

}  // namespace

std::string describe_waiting(const std::vector<std::string>& present,
                             const std::vector<std::string>& last_round, const Settings& settings) {
  const auto count = static_cast<int>(present.size());
  return std::to_string(count) + " of at least " + counted_nodes(settings.nodes_min) +
         (count == 1 ? " has joined" : " have joined") +
         (present.empty() ? "" : " (" + listed(present) + ")") +
         describe_missing(present, last_round, settings);
}

std::string describe_waiting(const std::vector<std::string>& present,
                             const std::vector<std::string>& last_round, const Settings& settings,
                             Time::duration left) {
  auto text = describe_waiting(present, last_round, settings);
  if (left <= Time::duration::zero()) return text;
  const bool are_enough = std::cmp_greater_equal(present.size(), settings.nodes_min);
  return text + "; waiting " + (are_enough ? "for more, " : "") + "for " + at_most(left);
}

std::string describe_shortage(const std::vector<std::string>& present,
                              const std::vector<std::string>& last_round,
                              const Settings& settings) {
  return "only " + std::to_string(present.size()) + " of at least " +
         std::to_string(settings.nodes_min) + " nodes joined within " +
         seconds_text(settings.join_timeout) + " (join_timeout)" +
         (present.empty() ? "" : ": " + listed(present)) +
         describe_missing(present, last_round, settings);
}

std::string describe_shortage_of_reach(const NodeChoice& choice, const Roster& roster,
                                       const Reachability& reach, int nodes_min) {
  return describe_cuts(choice, roster, reach) + "; a round needs " + counted_nodes(nodes_min) +
         " that can all reach each other, and at most " + std::to_string(choice.chosen.size()) +
         " can";
}

std::string describe_probes(std::chrono::milliseconds interval) {
  return " (probed again every " + seconds_text(interval) + ")";
}

std::string describe_probing_again(Time::duration left) {
  return "; probing again for " + at_most(std::max(left, Time::duration::zero()));
}

std::string describe_hold_back(const std::string& node, const FlappingNodes& flapping) {
  return "this node has joined and left, or was excluded because of a cut, " +
         std::to_string(flapping.count(node)) + " times in a row, each time within " +
         seconds_text(kLongStay) + "; the other nodes continue without it for up to " +
         seconds_text(flapping.hold_back(node)) + " before it may rejoin";
}

std::string describe_release(std::vector<std::string> others, const Settings& settings) {
  return "the workers of this node succeeded, and those of others have not ended after " +
         seconds_text(settings.exit_barrier_timeout) +
         " (exit_barrier_timeout), and may still fail: " + listed(std::move(others));
}

std::string describe_full_round(std::size_t nodes, int nodes_max) {
  return "the round has " + counted_nodes(static_cast<int>(nodes)) + " of at most " +
         std::to_string(nodes_max) + "; this one waits to replace another";
}

}  // namespace ddprun::membership
