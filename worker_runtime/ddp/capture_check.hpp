// Which steps of a reducer can become part of a CUDA graph. Pure.
#pragma once

#include <ddprun/buffer.hpp>
#include <ddprun/reducer_options.hpp>

#include <cstdint>
#include <span>
#include <string>

namespace ddprun {

/// How far a reducer is.
struct ReducerProgress {
  std::int64_t steps = 0;  ///< synchronised ones that have ended
  bool has_rebuilt = false;
  bool knows_counts = true;  ///< of static_graph
};

/// Empty if a step can be captured: nothing of it is the hosts' business, and nothing will move
/// that the graph keeps the place of.
std::string why_not_captured(const ReducerOptions& options, std::span<const Buffer> state,
                             const ReducerProgress& progress);

}  // namespace ddprun
