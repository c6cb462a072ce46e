// With whom each rank exchanges data to find out whose connection is bad, and what follows from it.
// An all-reduce of all is as slow as the slowest and does not say who that is; with several
// partners one after another, who is slow with all of them is the one. Pure; any thread.
#pragma once

#include "rendezvous/base/preflight_limits.hpp"

#include <span>
#include <string>
#include <utility>
#include <vector>

namespace ddprun::preflight {

/// One round: pairs that exchange at the same time, each rank in one of them at most.
using Round = std::vector<std::pair<int, int>>;

/// Each pair meets once at most; each rank has as many partners as there are, at most
/// kPreflightPartnersMax (one less for one of an odd number of ranks).
std::vector<Round> pairings(int ranks);

/// Of rates ("12.3 GB/s of ..."), one for each rank: what is amiss with each, empty if nothing is.
/// Amiss is 0, and less than half of the median. With two ranks the median is the better one's.
std::vector<std::string> slow_ranks(std::span<const double> rates, const std::string& what,
                                    const std::string& unit);

}  // namespace ddprun::preflight
