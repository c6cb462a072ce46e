// Parameters and options of a gradient reducer. Plain values.
#pragma once

#include <ddprun/bucket_hook.hpp>
#include <ddprun/buffer.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ddprun {

/// A parameter whose gradient is averaged. All ranks must define parameters in the same order.
struct Parameter {
  std::string name;  ///< name in errors: not empty, unique in the reducer, equal on all ranks
  Buffer values;     ///< values of the parameter, owned by the caller
  /// Dimensions, equal on all ranks; their product is values.elements. Empty: one dimension.
  std::vector<std::size_t> shape = {};
  /// The caller's memory for the gradient, outside of buckets. ready() copies it into the bucket
  /// and finish() copies the result back; in steps without synchronisation the caller accumulates
  /// in it. Its type is the values' type. With accumulate_in_float32 it may be a half type; ready()
  /// then adds each step's gradient to the bucket, which receives the result.
  Buffer gradient = {};
};

/// Handling of different numbers of batches per rank.
enum class UnevenInputs {
  /// Not supported: the other ranks block if a rank stops early.
  none,
  /// Ranks without further batches call join(); averages are over all ranks, with zero gradients.
  average_over_all,
  /// Like average_over_all, but averages are over the ranks that have input.
  average_over_active,
  /// All ranks throw as soon as a rank has no further batches.
  throw_early,
};

/// Collectives of a reducer besides those of its buckets.
enum class CollectiveSequence {
  /// Uses as few collectives as possible.
  own,
  /// Uses exactly the collectives of PyTorch 1.13's DDP, for
  /// comparing traces. At construction, only ranks that differ
  /// from rank 0 detect differences. The first step has one
  /// bucket per type. Buckets are rebuilt when PyTorch rebuilds
  /// them.
  pytorch,
};

/// Options of a GradientReducer. The defaults are those of PyTorch's DDP except for buffers.
struct ReducerOptions {
  /// Limit of the first bucket, which is small so that communication starts early (PyTorch's
  /// default).
  std::size_t first_bucket_bytes = 1 << 20;
  std::size_t bucket_bytes_cap = 25 << 20;  ///< limit of the other buckets (PyTorch's default)
  /// ReduceOp::average or ReduceOp::sum.
  ReduceOp op = ReduceOp::average;
  /// Divides before the addition, which gives PyTorch's rounding and avoids overflow of the sum.
  /// Applies to averages only; ignored with a hook.
  bool pre_divide = false;
  /// Compares names, types and dimensions of the parameters across the ranks at construction.
  bool verify_parameters = true;
  /// Broadcasts rank 0's parameters and buffers at construction.
  bool broadcast_state = true;
  /// Broadcasts rank 0's buffers before each step after a synchronised one (PyTorch's default:
  /// true).
  bool broadcast_buffers = false;
  /// Allows backward passes without gradients of some parameters, at the cost of one small
  /// collective per step.
  bool find_unused_parameters = false;
  /// Declares that every step uses each parameter the same number of times. The first synchronised
  /// step records this and is reduced at its end; later steps need no collective for unused
  /// parameters.
  bool static_graph = false;
  /// Rebuilds the buckets after the first synchronised step (with static_graph the second) in the
  /// order in which rank 0's gradients were ready. Results of gradient() change; contents are kept.
  /// With find_unused_parameters, requires static_graph.
  bool rebuild_buckets = false;
  /// Uses float32 buckets for parameters of half types, so that accumulation over steps and ranks
  /// does not round to the half type.
  bool accumulate_in_float32 = false;
  /// Number of synchronised steps between comparisons of bucket layout, step and parameters across
  /// ranks; 0: none. A comparison reads all parameters and exchanges 8 bytes per rank.
  std::int64_t drift_check_steps = 0;
  /// Hook that replaces the all-reduce of buckets.
  std::optional<BucketHook> hook = std::nullopt;
  UnevenInputs uneven_inputs = UnevenInputs::none;  ///< handling of different numbers of batches
  CollectiveSequence sequence = CollectiveSequence::own;  ///< additional collectives
};

}  // namespace ddprun
