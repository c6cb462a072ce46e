// Validation of a reducer's arguments, on this rank and between ranks.
#pragma once

#include <ddprun/process_group.hpp>
#include <ddprun/reducer_options.hpp>

#include <span>
#include <string>
#include <vector>

namespace ddprun {

/// Throws Error{Errc::usage} with the prefix "GradientReducer: ".
[[noreturn]] void refuse_reducer(const std::string& problem);

/// Returns `name` in double quotes.
std::string double_quoted(const std::string& name);

/// Returns the parameters with their shapes filled in. `device`: a permitted device in addition to
/// the CPU; may be null. Throws Error{Errc::usage} with the name of an invalid argument.
std::vector<Parameter> checked_parameters(const Device* device, std::vector<Parameter> parameters,
                                          std::span<const Buffer> state,
                                          const ReducerOptions& options);

/// Throws Error{Errc::usage} if the ranks have different parameters or options. Blocks.
void verify_ranks(ProcessGroup& group, std::span<const Parameter> parameters,
                  std::span<const Buffer> state, const ReducerOptions& options);

}  // namespace ddprun
