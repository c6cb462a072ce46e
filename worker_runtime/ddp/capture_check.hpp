// Checks whether a step of a reducer can be captured into a CUDA graph. Pure.
#pragma once

#include <ddprun/buffer.hpp>
#include <ddprun/reducer_options.hpp>

#include <cstdint>
#include <span>
#include <string>

namespace ddprun {

/// State of a reducer between steps.
struct ReducerProgress {
  std::int64_t steps = 0;  ///< number of completed synchronised steps
  bool has_rebuilt = false;
  bool knows_counts = true;  ///< static_graph: the counts are known
};

/// Returns why a step cannot be captured; empty if it can. A captured step must not need the host,
/// and the memory that the graph refers to must not move.
std::string why_not_captured(const ReducerOptions& options, std::span<const Buffer> state,
                             const ReducerProgress& progress);

}  // namespace ddprun
