// Finds stalled collectives in the flight recorders of workers: which ranks wait, and which have
// not entered. Used for failed runs and for runs that hang. Pure.
#pragma once

#include "rendezvous/control/flights.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace ddprun {

using control::RankFlights;

/// A call and the ranks that made it.
struct CallOfRanks {
  std::string call;
  std::uint64_t bytes = 0;
  std::vector<int> ranks;

  bool operator==(const CallOfRanks&) const = default;
};

/// A rank that is behind the others.
struct MissingRank {
  int rank = 0;
  std::string doing;  ///< "its last was barrier(), 3.1 s earlier"

  bool operator==(const MissingRank&) const = default;
};

/// A collective that some ranks of a group have entered and that not all have completed.
struct StalledCollective {
  std::string group;
  bool is_meeting = false;  ///< the group is still being created; there is no collective yet
  std::uint64_t number = 0;
  std::vector<CallOfRanks> calls{};      ///< more than one: the ranks called different operations
  std::vector<int> waiting{};            ///< in the collective
  double waited_seconds = 0;             ///< the longest wait
  std::vector<int> through{};            ///< completed the collective
  std::vector<MissingRank> missing{};    ///< not entered
  std::vector<MissingRank> messaging{};  ///< other ranks that wait for a message
  std::vector<int> unknown{};            ///< lacked space to record all of their groups

  bool operator==(const StalledCollective&) const = default;
};

/// Returns at most one collective per group. `ranks` may be incomplete; only the given ranks are
/// reported.
std::vector<StalledCollective> find_stalled_collectives(const std::vector<RankFlights>& ranks);

/// Returns "collective 17 of group "default", all_reduce(...) of 25.0 MiB", or the group if it is
/// still being created.
std::string place_of(const StalledCollective& stalled);

/// Returns one line: "rank 2 has not entered collective 17 of group "default", all_reduce(...) of
/// 25.0 MiB; ranks 0-1 wait in it, for up to 30.0 s".
std::string headline(const StalledCollective& stalled);

/// Returns the headline and the last action of each missing rank, one line each.
std::vector<std::string> describe(const StalledCollective& stalled);

}  // namespace ddprun
