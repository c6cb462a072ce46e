#include "rendezvous/membership/succession.hpp"

#include <algorithm>

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

Succession::Succession(const RunRecord& record, Time leases_end) : leases_end_(leases_end) {
  const bool is_host_known = std::count(record.nodes.begin(), record.nodes.end(), record.host) == 1;
  for (const auto& name : record.nodes) {
    places_.push_back({.name = name, .may_have_workers = !is_host_known || name != record.host});
  }
}

int Succession::claim(const std::string& name) {
  const auto found = std::find_if(places_.begin(), places_.end(), [&](const Place& place) {
    return place.name == name && !place.is_claimed;
  });
  if (found == places_.end()) return -1;
  found->is_claimed = true;
  return static_cast<int>(found - places_.begin());
}

std::optional<Time> Succession::not_before(Time now) const {
  const bool is_missing = std::any_of(places_.begin(), places_.end(), [](const Place& place) {
    return place.may_have_workers && !place.is_claimed;
  });
  if (!is_missing || leases_end_ <= now) return std::nullopt;
  return leases_end_;
}

}  // namespace ddprun::membership
