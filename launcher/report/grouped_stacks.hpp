// Groups workers with the same stacks. Pure.
#pragma once

#include "launcher/report/event.hpp"

#include <vector>

namespace ddprun {

/// Merges stacks that differ only in numbers of processes and threads, in addresses, and in whether
/// threads run: the first one keeps its lines and lists the ranks of the others in `same`. Returns
/// the smallest groups first: a rank that differs from all others is often the cause of a hang.
std::vector<StacksTaken> grouped_stacks(std::vector<StacksTaken> all);

/// Returns all ranks with these stacks, ascending.
std::vector<int> ranks_of(const StacksTaken& taken);

}  // namespace ddprun
