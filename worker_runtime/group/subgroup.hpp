// How the ranks of a group agree on a group of some of them: each says to the others what it is
// about to make, so that ranks which make different groups, or in another order, or something that
// cannot be made, are told of it in place of waiting for each other.
#pragma once

#include "worker_runtime/backends/group_place.hpp"
#include <ddprun/process_group.hpp>

#include <functional>
#include <string>
#include <vector>

namespace ddprun {

/// Why `ranks` cannot be a group; empty if they are some of 0..size-1, ascending.
std::string refuse_ranks(const std::vector<int>& ranks, int size);

/// What this rank is asked to make.
struct Subgroup {
  std::string name;
  std::vector<int> ranks;
  int own_node = 0;
  std::string refusal{};  ///< why it cannot; empty if it can
};

/// Makes a rank's bytes of `own` known to all, as all_gather does; the parent group's.
using ShareAmongAll = std::function<void(Buffer own, Buffer all)>;

/// Every rank of the parent group, of `size` ranks, calls it and says on which node it is. Returns
/// the nodes of all ranks.
/// Throws Error{Errc::usage}, on all ranks the same, if they do not make the same group, its name
/// and its ranks, or if one of them cannot.
std::vector<int> agree_on_subgroup(const ShareAmongAll& share, int size, const Subgroup& own);

}  // namespace ddprun
