// A whole run of many nodes in one thread and in no time: the coordinator's and the nodes' real
// decisions, a made-up network, made-up workers, and a clock that jumps from event to event. All
// chance comes from one seed, so a history that fails can be had again.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ddprun::test {

struct SimulationOutcome {
  std::vector<std::string> violations;  ///< of what must hold; empty: none
  std::string result;                   ///< how the run ended, in a word
  int rounds = 0;
  int restarts = 0;
  int faults = 0;  ///< injected
  double virtual_seconds = 0;
  std::vector<std::string> history;  ///< what happened, a line each
};

/// Plays one history: a handful of nodes, some minutes of crashes, pauses, cuts, resets, leaves,
/// joins and failing workers, then a time without faults in which the run must come to its end.
/// With `has_skewed_clocks` each node has a clock of its own, hours from the others and up to 2 %
/// fast or slow.
SimulationOutcome simulate_membership(std::uint64_t seed, bool has_skewed_clocks = false);

/// The same, where nodes may want ranks or have one name, and the end of a connection may be
/// noticed long after another one has begun. Every second history has skewed clocks.
SimulationOutcome simulate_harshly(std::uint64_t seed);

/// The same, where pairs of nodes cannot reach each other for a time, in one direction or both,
/// although they reach the coordinator. In every second history nothing else befalls nodes and
/// network; of the others, every second has an elected coordinator.
SimulationOutcome simulate_cuts(std::uint64_t seed);

/// Such cuts stand from the beginning to the end, and nothing else happens: the run succeeds with
/// the largest set of nodes, or ends because that is too small.
SimulationOutcome simulate_standing_cuts(std::uint64_t seed);

/// The same, where workers may leave processes that cannot be killed. In every second history
/// nothing else happens, and the run succeeds; of the others, every second has an elected
/// coordinator.
SimulationOutcome simulate_leftovers(std::uint64_t seed);

/// The same with a coordinator that is elected: its node is lost, stopped, loses its term or
/// leaves, and another one goes on from its record, which is written down with delay, or not at
/// all.
SimulationOutcome simulate_elections(std::uint64_t seed);

}  // namespace ddprun::test
