// Simulates a whole run of many nodes in one thread without delays: the real decisions of
// coordinator and nodes, a simulated network, simulated workers, and a clock that jumps from event
// to event. All randomness comes from one seed, so a failed history can be repeated.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ddprun::test {

struct SimulationOutcome {
  std::vector<std::string> violations;  ///< violated invariant; empty: none
  std::string result;                   ///< outcome of the run
  int rounds = 0;
  int restarts = 0;
  int faults = 0;  ///< number of injected faults
  double virtual_seconds = 0;
  std::vector<std::string> history;  ///< events, one per line
};

/// Simulates one history: a few nodes, some minutes of crashes, pauses, cuts, resets, leaves, joins
/// and failing workers, then a time without faults in which the run must end. With
/// `has_skewed_clocks` each node has its own clock, hours from the others and up to 2 % fast or
/// slow.
SimulationOutcome simulate_membership(std::uint64_t seed, bool has_skewed_clocks = false);

/// The same, but nodes may request ranks or share a name, and the end of a connection may be
/// detected long after a newer one begins. Every second history has skewed clocks.
SimulationOutcome simulate_harshly(std::uint64_t seed);

/// The same, but pairs of nodes temporarily cannot connect to each other, in one direction or both,
/// although they reach the coordinator. Every second history has no other faults; of the others,
/// every second has an elected coordinator.
SimulationOutcome simulate_cuts(std::uint64_t seed);

/// Such cuts last from the beginning to the end, and there are no other faults: the run succeeds
/// with the largest set of connected nodes, or ends because that is too small.
SimulationOutcome simulate_standing_cuts(std::uint64_t seed);

/// The same, but workers may leave processes that cannot be killed. Every second history has no
/// other faults and the run succeeds; of the others, every second has an elected coordinator.
SimulationOutcome simulate_leftovers(std::uint64_t seed);

/// The same with an elected coordinator: its node is lost, stopped, loses its term or leaves, and
/// another one continues from its record, which is written with delay or not at all.
SimulationOutcome simulate_elections(std::uint64_t seed);

}  // namespace ddprun::test
