// Pairs of ranks whose rates identify a bad connection. An all-reduce of all ranks is as slow as
// the slowest rank and does not identify it; a rank that is slow with several partners is the
// cause. Pure; thread-safe.
#pragma once

#include "rendezvous/base/preflight_limits.hpp"

#include <span>
#include <string>
#include <utility>
#include <vector>

namespace ddprun::preflight {

/// A round: disjoint pairs that exchange at the same time.
using Round = std::vector<std::pair<int, int>>;

/// Each pair occurs at most once. Each rank has all others as partners, at most
/// kPreflightPartnersMax (some have one fewer with an odd number of ranks).
std::vector<Round> pairings(int ranks);

/// `rates`: one per rank ("12.3 GB/s of ..."). Returns the problem of each rank; empty if none. A
/// rate of 0 or below half of the median is a problem. With two ranks the median is the
/// higher rate.
std::vector<std::string> slow_ranks(std::span<const double> rates, const std::string& what,
                                    const std::string& unit);

}  // namespace ddprun::preflight
