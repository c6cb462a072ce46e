// Wider types for partial results, so that reductions in several steps do not round in between.
#pragma once

#include <ddprun/buffer.hpp>

#include <cstddef>

namespace ddprun::collectives {

/// Returns the type of a partial result: float32 for half types, int64 for averages of small
/// integers, else `type`.
DataType partial_type(DataType type, ReduceOp op);

/// Returns the operation on partial results: sum for average, else `op`.
ReduceOp partial_op(ReduceOp op);

/// Converts `elements` elements of `type` to partial_type(). The buffers must not overlap.
void widen(DataType type, ReduceOp op, const void* from, void* to, std::size_t elements);

/// Converts `partial`, the result over all `ranks` ranks, to `type` at `to`: divides averages,
/// rounds half types. Overwrites `partial`, which may be at `to` if the types are equal.
void complete(DataType type, ReduceOp op, int ranks, Buffer partial, void* to);

}  // namespace ddprun::collectives
