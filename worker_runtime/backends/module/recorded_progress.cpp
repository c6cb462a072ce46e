#include "worker_runtime/backends/module/recorded_progress.hpp"

#include "rendezvous/control/flight_recorder.hpp"
#include "worker_runtime/backends/rank_names.hpp"

#include <algorithm>
#include <optional>
#include <vector>

namespace ddprun {

namespace {

std::optional<control::GroupFlightRecord> part_of(const control::ControlPage& page, int slot,
                                                  const std::string& group) {
  const auto worker = control::read_flights(page, slot, control::FlightRecorder::Clock::now());
  const auto found = std::find_if(
      worker.groups.begin(), worker.groups.end(),
      [&](const control::GroupFlightRecord& flights) { return flights.name == group; });
  return found == worker.groups.end() ? std::nullopt : std::optional(*found);
}

}  // namespace

std::string recorded_hold_up(const control::ControlPage& page, int slot, const std::string& group) {
  const auto own = part_of(page, slot, group.substr(0, control::kGroupNameBytesMax));
  if (!own) return {};
  std::vector<int> late;
  for (int other = 0; other < page.local_world_size(); ++other) {
    const auto part = part_of(page, other, own->name);
    if (part && part->entered < own->entered) late.push_back(part->rank);
  }
  if (late.empty()) return {};
  std::sort(late.begin(), late.end());
  return "rank(s) " + RankNames(own->members).list(late) + " had not entered it";
}

}  // namespace ddprun
