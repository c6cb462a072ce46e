#include "launcher/agent/early_exit.hpp"

#include "launcher/report/event_text.hpp"
#include "rendezvous/control/flight_recorder.hpp"

#include <algorithm>

namespace ddprun {

namespace {

// A worker leaves its groups, which ends the waits of others, some time before its process ends.
constexpr std::chrono::milliseconds kLeavingTime{100};

const control::GroupFlightRecord* find_group(const control::WorkerFlights& worker,
                                             const std::string& name) {
  const auto found =
      std::find_if(worker.groups.begin(), worker.groups.end(),
                   [&](const control::GroupFlightRecord& group) { return group.name == name; });
  return found == worker.groups.end() ? nullptr : &*found;
}

/// Returns true if a missing record proves that the rank, a member of the group, has not created
/// the group. Records of ended groups may have been overwritten, and members of large groups are
/// not recorded.
bool is_known(int rank, const std::string& name, const std::vector<RankFlights>& flights) {
  bool is_known = false;
  for (const auto& one : flights) {
    const auto* const group = find_group(one.worker, name);
    const auto& worker = one.worker;
    if (one.rank == rank) {
      if (group != nullptr) return true;
      is_known = worker.unrecorded_groups == 0 && worker.groups.size() < control::kFlightGroupsMax;
    } else if (group != nullptr && group->members.empty() &&
               group->size > static_cast<int>(control::kGroupMembersMax)) {
      return false;
    }
  }
  return is_known;
}

bool is_missing(int rank, const StalledCollective& stalled) {
  return std::any_of(stalled.missing.begin(), stalled.missing.end(),
                     [&](const MissingRank& missing) { return missing.rank == rank; });
}

const WorkerExited* find_exit(int rank, const std::vector<WorkerExited>& exits) {
  const auto found = std::find_if(exits.begin(), exits.end(),
                                  [rank](const WorkerExited& exit) { return exit.rank == rank; });
  return found == exits.end() ? nullptr : &*found;
}

const control::GroupFlightRecord* find_group(int rank, const std::string& name,
                                             const std::vector<RankFlights>& flights) {
  const auto found = std::find_if(flights.begin(), flights.end(),
                                  [rank](const RankFlights& one) { return one.rank == rank; });
  return found == flights.end() ? nullptr : find_group(found->worker, name);
}

bool has_failed(int rank, const std::string& group, const std::vector<RankFlights>& flights) {
  const auto* const record = find_group(rank, group, flights);
  return record != nullptr && record->state == control::GroupState::failed;
}

/// Returns the time since the rank's wait in the group failed; nullopt if it still waits.
std::optional<std::chrono::nanoseconds> failed_ago(int rank, const std::string& group,
                                                   const std::vector<RankFlights>& flights) {
  const auto* const record = find_group(rank, group, flights);
  if (record == nullptr || record->flights.empty()) return std::nullopt;
  const auto& last = record->flights.back();
  return last.state == control::FlightState::failed ? std::optional(last.ended_ago) : std::nullopt;
}

std::string describe_wait(const StalledCollective& stalled) {
  const std::string others = ranks_phrase(stalled.waiting);
  const char* const verb = stalled.waiting.size() == 1 ? " waits" : " wait";
  if (stalled.is_meeting)
    return "before it made " + place_of(stalled) + ", where " + others + verb + " for it";
  return "before it entered " + place_of(stalled) + ", in which " + others + verb;
}

}  // namespace

std::optional<EarlyExit> find_early_exit(const std::vector<WorkerExited>& exits,
                                         const std::vector<RankFlights>& flights,
                                         std::chrono::system_clock::time_point read_at) {
  for (const auto& stalled : find_stalled_collectives(flights)) {
    for (std::size_t i = 0; i < exits.size(); ++i) {
      const WorkerExited& exit = exits[i];
      if (exit.failed() || exit.was_stopped || !is_missing(exit.rank, stalled) ||
          !is_known(exit.rank, stalled.group, flights) ||
          has_failed(exit.rank, stalled.group, flights))
        continue;
      auto with_others = stalled;
      std::erase_if(with_others.waiting, [&](int rank) {
        if (const auto* const own = find_exit(rank, exits)) return !own->failed();
        const auto ago = failed_ago(rank, stalled.group, flights);
        return ago && exit.ended_at && read_at - *ago < *exit.ended_at - kLeavingTime;
      });
      if (!with_others.waiting.empty()) return EarlyExit{i, describe_wait(with_others)};
    }
  }
  return std::nullopt;
}

}  // namespace ddprun
