#include "launcher/agent/early_exit.hpp"

#include "launcher/report/event_text.hpp"
#include "rendezvous/control/flight_recorder.hpp"

#include <algorithm>

namespace ddprun {

namespace {

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

bool has_succeeded(int rank, const std::vector<WorkerExited>& exits) {
  return std::any_of(exits.begin(), exits.end(), [rank](const WorkerExited& exit) {
    return exit.rank == rank && !exit.failed();
  });
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
                                         const std::vector<RankFlights>& flights) {
  for (auto& stalled : find_stalled_collectives(flights)) {
    // A rank that has caught a timeout and ended no longer waits.
    std::erase_if(stalled.waiting, [&](int rank) { return has_succeeded(rank, exits); });
    if (stalled.waiting.empty()) continue;
    for (std::size_t i = 0; i < exits.size(); ++i) {
      const WorkerExited& exit = exits[i];
      if (!exit.failed() && !exit.was_stopped && is_missing(exit.rank, stalled) &&
          is_known(exit.rank, stalled.group, flights))
        return EarlyExit{i, describe_wait(stalled)};
    }
  }
  return std::nullopt;
}

}  // namespace ddprun
