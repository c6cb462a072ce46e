// Delays nodes that repeatedly join and leave, are lost, or are excluded for a cut: each time, all
// other nodes lose a round without using a restart. After several short stays in a row, a node is
// held back for an increasing time when it rejoins. The counts are not part of the record: a new
// coordinator restarts them, which costs at most two rounds. A value.
#pragma once

#include "rendezvous/membership/roster.hpp"
#include "rendezvous/membership/settings.hpp"

#include <chrono>
#include <cstddef>
#include <map>
#include <set>
#include <string>

namespace ddprun::membership {

/// A longer stay resets the count.
inline constexpr std::chrono::minutes kLongStay(5);

/// Consecutive short stays without a delay.
inline constexpr int kFreeShortStays = 2;

/// Delay after the next short stay; doubles with each further one, up to kLongestHoldBack.
inline constexpr std::chrono::seconds kFirstHoldBack(10);
inline constexpr std::chrono::minutes kLongestHoldBack(5);

/// Maximum number of nodes tracked; those that left first are dropped.
inline constexpr std::size_t kStaysKept = 4096;

class FlappingNodes {
 public:
  /// Records that the node, which joined at `came`, has left, is lost, or is excluded for a cut.
  void note(const std::string& name, Time came, Time now);

  /// Records that these nodes are excluded for a cut, and holds them back: an intermittent cut
  /// would end a round each time that it recovers.
  void hold_back(const std::set<NodeId>& cut_off, Roster& roster, Time now);

  /// Returns the number of consecutive short stays.
  int count(const std::string& name) const;

  /// Returns the delay if the node joins now; zero: none.
  std::chrono::milliseconds hold_back(const std::string& name) const;

 private:
  struct Stays {
    int count = 0;
    Time left;
  };
  void make_room();
  std::map<std::string, Stays> of_;
};

}  // namespace ddprun::membership
