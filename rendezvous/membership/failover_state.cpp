#include "rendezvous/membership/failover_state.hpp"

#include <algorithm>
#include <utility>

namespace ddprun::membership {

RunRecord record_of(const Settings& settings, const RestartHistory& history, Time now) {
  RunRecord record{.restarts = history.restarts,
                   .fast_failures = history.fast_failures,
                   .nodes_min = settings.nodes_min,
                   .nodes_max = settings.nodes_max,
                   .max_restarts = settings.restarts.max_restarts,
                   .config_hash = settings.config_hash};
  for (const auto when : history.recent) {
    record.restart_ages.push_back(std::chrono::floor<std::chrono::milliseconds>(now - when));
  }
  return record;
}

RestartHistory history_of(const RunRecord& record, Time now) {
  RestartHistory history{.restarts = record.restarts, .fast_failures = record.fast_failures};
  for (const auto age : record.restart_ages) history.recent.push_back(now - age);
  return history;
}

Settings settings_of(const RunRecord& record, const std::string& run_id) {
  Settings settings{.run_id = run_id,
                    .config_hash = record.config_hash,
                    .nodes_min = record.nodes_min,
                    .nodes_max = record.nodes_max};
  settings.restarts.max_restarts = record.max_restarts;
  return settings;
}

FailoverState::FailoverState(const RunRecord& record, Time leases_end) : leases_end_(leases_end) {
  for (const auto& node : record.nodes) {
    places_.push_back({.node = node, .may_have_workers = node.instance != record.host.instance});
  }
}

std::vector<FailoverState::Place>::iterator FailoverState::place_of(const std::string& name,
                                                                    std::uint64_t instance) {
  const auto same = std::find_if(places_.begin(), places_.end(), [&](const Place& place) {
    return place.node.instance == instance && place.node.name == name;
  });
  if (same != places_.end()) return same;
  const auto has_name = [&](const Place& place) { return place.node.name == name; };
  const bool is_unique = std::count_if(places_.begin(), places_.end(), has_name) == 1;
  return is_unique ? std::find_if(places_.begin(), places_.end(), has_name) : places_.end();
}

int FailoverState::claim(const std::string& name, std::uint64_t instance) {
  const auto place = place_of(name, instance);
  if (place == places_.end()) return -1;
  const bool is_same = place->node.instance == instance;
  if (is_same) place->may_have_workers = false;
  if (std::exchange(place->is_claimed, true) && !is_same) return -1;
  return static_cast<int>(place - places_.begin());
}

std::optional<Time> FailoverState::not_before(Time now) const {
  const bool is_missing = std::any_of(places_.begin(), places_.end(),
                                      [](const Place& place) { return place.may_have_workers; });
  if (!is_missing || leases_end_ <= now) return std::nullopt;
  return leases_end_;
}

}  // namespace ddprun::membership
