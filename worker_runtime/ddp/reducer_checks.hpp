// What can be wrong with what a reducer is given: on this rank, or between the ranks. Blocks only
// where it says so.
#pragma once

#include <ddprun/process_group.hpp>
#include <ddprun/reducer_options.hpp>

#include <span>
#include <string>
#include <vector>

namespace ddprun {

/// Throws Error{Errc::usage}: "GradientReducer: " and the problem.
[[noreturn]] void refuse_reducer(const std::string& problem);

/// `name` in double quotes.
std::string double_quoted(const std::string& name);

/// The parameters with their shapes filled in. `device`: where they may be beside the CPU; null if
/// nowhere. Throws Error{Errc::usage} naming the argument that cannot work.
std::vector<Parameter> checked_parameters(const Device* device, std::vector<Parameter> parameters,
                                          std::span<const Buffer> state,
                                          const ReducerOptions& options);

/// Blocks. Throws Error{Errc::usage} if the ranks want different things of the group.
void verify_ranks(ProcessGroup& group, std::span<const Parameter> parameters,
                  std::span<const Buffer> state, const ReducerOptions& options);

}  // namespace ddprun
