// What a gradient reducer is given: the parameters and how it is to treat them. Plain values.
#pragma once

#include <ddprun/bucket_hook.hpp>
#include <ddprun/buffer.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ddprun {

/// A parameter whose gradient is to be averaged. The order of definition must be the same on every
/// rank.
struct Parameter {
  std::string name;  ///< for errors; compared across the ranks
  Buffer values;     ///< the weights, owned by the caller
  /// Its dimensions, whose product is values.elements. They are compared across the ranks and given
  /// to hooks; empty means one dimension.
  std::vector<std::size_t> shape = {};
  /// Memory of the caller in which the backward pass leaves the gradient, if that is not to be in a
  /// bucket. ready() copies it into the bucket, finish() copies the result back; in steps without
  /// synchronisation the caller adds up in it. Of the values' type; or, with
  /// accumulate_in_float32, of a half type: then ready() adds each step's gradient to the one in
  /// the bucket, where the result stays.
  Buffer gradient = {};
};

/// What happens when ranks have different numbers of batches.
enum class UnevenInputs {
  /// They must not: a rank that stops early leaves the others waiting.
  none,
  /// Who is through calls join(); averages are still over all ranks, zeros included.
  average_over_all,
  /// The same, but averages are over the ranks that have input.
  average_over_active,
  /// As soon as one rank is through, all throw.
  throw_early,
};

/// Which collectives a reducer calls beside those of the buckets.
enum class CollectiveSequence {
  /// As few as possible.
  own,
  /// Those of PyTorch 1.13's DDP, one for one: for comparing traces. Differences between the ranks
  /// at construction are then found by the ranks that differ from rank 0 only, the first step has
  /// one bucket for each type, and buckets are rebuilt whenever PyTorch would.
  pytorch,
};

/// Options of a GradientReducer; the defaults are those of PyTorch's DDP but for buffers.
struct ReducerOptions {
  /// The first bucket is small so that communication starts early in the backward pass (PyTorch's
  /// default).
  std::size_t first_bucket_bytes = 1 << 20;
  std::size_t bucket_bytes_cap = 25 << 20;  ///< limit of the other buckets (PyTorch's default)
  /// average or sum.
  ReduceOp op = ReduceOp::average;
  /// Divide before the ranks' gradients are added rather than after: PyTorch's rounding, and no
  /// overflow of the sum. Of averages, where there is no hook.
  bool pre_divide = false;
  /// Compare names, types and counts of the parameters across the ranks at construction.
  bool verify_parameters = true;
  /// Give every rank rank 0's parameters and buffers at construction.
  bool broadcast_state = true;
  /// Give every rank rank 0's buffers before each step that follows a synchronised one (PyTorch's
  /// default).
  bool broadcast_buffers = false;
  /// Allow backward passes in which not every parameter gets a gradient: one more small collective
  /// a step tells which parameters no rank used.
  bool find_unused_parameters = false;
  /// Every step uses the same parameters equally often. The first synchronised step counts that,
  /// and is reduced at its end; later ones know when a gradient is complete, and which are unused,
  /// at no cost.
  bool static_graph = false;
  /// After the first synchronised step (with static_graph the second), fill the buckets anew in the
  /// order in which rank 0's gradients were ready. gradient() then has other answers; what was
  /// there is kept. Not with find_unused_parameters, whose order may change, unless static_graph.
  bool rebuild_buckets = false;
  /// Buckets of parameters of half types are float32: steps without synchronisation and ranks add
  /// up without rounding.
  bool accumulate_in_float32 = false;
  /// In every so many synchronised steps, compare bucket layout, step and parameters of all ranks
  /// by 8 bytes each, and name rank and parameter where they differ. 0: never. Reading all
  /// parameters takes about as long as copying them.
  std::int64_t drift_check_steps = 0;
  /// In place of the buckets' all-reduce.
  std::optional<BucketHook> hook = std::nullopt;
  UnevenInputs uneven_inputs = UnevenInputs::none;        ///< see there
  CollectiveSequence sequence = CollectiveSequence::own;  ///< see there
};

}  // namespace ddprun
