// Agreement of a group's ranks on a subgroup. Each rank shares its arguments with the others, so
// that different groups, a different order or invalid arguments cause an error instead of a
// deadlock.
#pragma once

#include "worker_runtime/backends/group_place.hpp"
#include <ddprun/process_group.hpp>

#include <functional>
#include <string>
#include <vector>

namespace ddprun {

/// Returns why `ranks` is not an ascending selection of 0..size-1; empty if it is.
std::string refuse_ranks(const std::vector<int>& ranks, int size);

/// Arguments of new_group() on this rank.
struct Subgroup {
  std::string name;
  std::vector<int> ranks;
  int own_node = 0;
  std::string refusal{};  ///< why the arguments are invalid; empty if they are valid
};

/// All-gather of the parent group: shares `own` of each rank with all ranks.
using ShareAmongAll = std::function<void(Buffer own, Buffer all)>;

/// Called by each of the `size` ranks of the parent group. Returns the nodes of all ranks. Throws
/// the same Error{Errc::usage} on all ranks if names or ranks of the groups differ, or if the
/// arguments of a rank are invalid.
std::vector<int> agree_on_subgroup(const ShareAmongAll& share, int size, const Subgroup& own);

}  // namespace ddprun
