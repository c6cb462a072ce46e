// How the ranks of a group agree on a group of some of them: each says to the others what it is
// about to make, so that ranks which make different groups, or in another order, are told of it in
// place of waiting for each other.
#pragma once

#include "worker_runtime/backends/group_place.hpp"
#include <ddprun/process_group.hpp>

#include <string>
#include <vector>

namespace ddprun {

/// Throws Error{Errc::usage} unless `ranks` are some of 0..size-1, ascending.
void check_subgroup(const std::vector<int>& ranks, int size);

/// Every rank of `parent` calls it and says on which node it is. Returns the nodes of all ranks.
/// Throws Error{Errc::usage}, on all ranks the same, if they do not make the same group: its name,
/// and its ranks.
std::vector<int> agree_on_subgroup(ProcessGroup& parent, const std::string& name,
                                   const std::vector<int>& ranks, int own_node);

}  // namespace ddprun
