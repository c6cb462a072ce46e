// Finds stalled collectives in the flight recorders of workers: the ranks that wait, and the ranks
// that have not entered. Used for failed and for hanging runs. Pure.
#pragma once

#include "rendezvous/control/flights.hpp"
#include "rendezvous/membership/messages.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace ddprun {

using control::RankFlights;
using membership::MissingRank;

/// A call and the ranks that made it.
struct CallOfRanks {
  std::string call;
  std::uint64_t bytes = 0;
  std::vector<int> ranks;

  bool operator==(const CallOfRanks&) const = default;
};

/// A collective that some ranks of a group have entered but not all have completed.
struct StalledCollective {
  std::string group;
  bool is_meeting = false;  ///< true while the group is being created; there is no collective yet
  std::uint64_t number = 0;
  std::vector<CallOfRanks> calls{};      ///< several if ranks called different operations
  std::vector<int> waiting{};            ///< ranks in the collective
  double waited_seconds = 0;             ///< longest wait
  std::vector<int> through{};            ///< ranks that completed the collective
  std::vector<MissingRank> missing{};    ///< ranks that have not entered
  std::vector<MissingRank> messaging{};  ///< other ranks that wait for a message
  std::vector<int> unknown{};            ///< ranks without space to record all of their groups

  bool operator==(const StalledCollective&) const = default;
};

/// Returns at most one collective per group. `ranks` may be incomplete; the result contains only
/// these ranks.
std::vector<StalledCollective> find_stalled_collectives(const std::vector<RankFlights>& ranks);

/// Returns the ranks that have not entered a collective in which others wait, each once.
std::vector<int> late_ranks(const std::vector<StalledCollective>& stalled);

/// Returns "collective 17 of group "default", all_reduce(...) of 25.0 MiB", or the group if it is
/// still being created.
std::string place_of(const StalledCollective& stalled);

/// Returns one line: "rank 2 has not entered collective 17 of group "default", all_reduce(...) of
/// 25.0 MiB; ranks 0-1 wait in it, for up to 30.0 s".
std::string headline(const StalledCollective& stalled);

/// Returns the headline and the last action of each missing rank, one line each.
std::vector<std::string> describe(const StalledCollective& stalled);

}  // namespace ddprun
