// From the flight recorders of the workers to what an operator wants to know when a run has failed
// or hangs: the collective in which some ranks wait, and which ranks have not entered it. Pure.
#pragma once

#include "rendezvous/control/flights.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace ddprun {

/// What one worker has recorded.
struct RankFlights {
  int rank = 0;
  control::WorkerFlights worker{};

  bool operator==(const RankFlights&) const = default;
};

/// One call, and the ranks that made it.
struct CallOfRanks {
  std::string call;
  std::uint64_t bytes = 0;
  std::vector<int> ranks;

  bool operator==(const CallOfRanks&) const = default;
};

/// A rank that has not come as far as the others.
struct MissingRank {
  int rank = 0;
  std::string doing;  ///< "its last was barrier(), 3.1 s before"

  bool operator==(const MissingRank&) const = default;
};

/// A collective that some ranks of a group have entered and not all have got through.
struct StalledCollective {
  std::string group;
  bool is_meeting = false;  ///< the ranks have not met yet: there is no collective
  std::uint64_t number = 0;
  std::vector<CallOfRanks> calls{};      ///< more than one: the ranks disagree
  std::vector<int> waiting{};            ///< they are in it
  double waited_seconds = 0;             ///< the longest of them
  std::vector<int> through{};            ///< they are through with it
  std::vector<MissingRank> missing{};    ///< they have not entered it
  std::vector<MissingRank> messaging{};  ///< others that wait for a message
  std::vector<int> unknown{};            ///< they had no room to record all of their groups

  bool operator==(const StalledCollective&) const = default;
};

/// At most one for each group. `ranks` may be a part of all: only those that are there are spoken
/// of.
std::vector<StalledCollective> find_stalled_collectives(const std::vector<RankFlights>& ranks);

/// "collective 17 of group "default", all_reduce(...) of 25.0 MiB", or the group where its ranks
/// have not met yet.
std::string place_of(const StalledCollective& stalled);

/// One line: "rank 2 has not entered collective 17 of group "default", all_reduce(...) of 25.0 MiB;
/// ranks 0-1 wait in it, for up to 30.0 s".
std::string headline(const StalledCollective& stalled);

/// The same with what the missing ranks did last, a line each.
std::vector<std::string> describe(const StalledCollective& stalled);

}  // namespace ddprun
