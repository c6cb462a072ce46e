// Groups workers with the same stacks. Pure.
#pragma once

#include "launcher/report/event.hpp"

#include <string>
#include <vector>

namespace ddprun {

/// Merges stacks that differ only in addresses and in the headings of threads, of which only the
/// letters outside parentheses are compared: the first one keeps its lines and lists the ranks of
/// the others in `same`. Returns the smallest groups first: a rank that differs from all others is
/// often the cause of a hang.
std::vector<StacksTaken> grouped_stacks(std::vector<StacksTaken> all);

/// Returns all ranks with these stacks, ascending.
std::vector<int> ranks_of(const StacksTaken& taken);

/// Returns the same as "ranks 0-2", or their number if that is long: "50 ranks".
std::string short_ranks(const StacksTaken& taken);

}  // namespace ddprun
