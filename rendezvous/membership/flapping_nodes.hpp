// Nodes that come and go again and again, lost, by their own leave, or left out of a round because
// they are cut off from another node: each time all others lose a round, at no cost of restarts. So
// one that did not stay long, several times in a row, is held back for a while when it comes again,
// ever longer, and the others have the time in between for their work. It is in no record: with
// another coordinator the count begins again, which costs the others two rounds at most. A value.
#pragma once

#include "rendezvous/membership/settings.hpp"

#include <chrono>
#include <cstddef>
#include <map>
#include <string>

namespace ddprun::membership {

/// A node that was here for longer is not the one that keeps others from working.
inline constexpr std::chrono::minutes kLongStay(5);

/// Short stays in a row that have no consequence: a node may be started anew, or have a bad moment.
inline constexpr int kFreeShortStays = 2;

/// After the next one; each further one doubles it, up to the longest.
inline constexpr std::chrono::seconds kFirstHoldBack(10);
inline constexpr std::chrono::minutes kLongestHoldBack(5);

/// Nodes of whose stays is known; beyond that those are forgotten that left first.
inline constexpr std::size_t kStaysKept = 4096;

class FlappingNodes {
 public:
  /// The node that came at that time has left, is lost, or is left out because of a cut.
  void note(const std::string& name, Time came, Time now);

  /// In a row.
  int count(const std::string& name) const;

  /// For how long the node is held back if it comes now; zero: not at all.
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
