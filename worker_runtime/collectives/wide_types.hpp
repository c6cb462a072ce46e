// Sums that are made in several steps must not be rounded in between: what the combination of some
// ranks' values is kept in until the others' are added, and the way there and back.
#pragma once

#include <ddprun/buffer.hpp>

#include <cstddef>

namespace ddprun::collectives {

/// The type of a combination that is not complete: float32 for half types, int64 for averages of
/// small integers, else `type` itself.
DataType partial_type(DataType type, ReduceOp op);

/// How partial combinations are made and combined: an average is a sum until the end.
ReduceOp partial_op(ReduceOp op);

/// `elements` elements of `type` as partial_type(). The two must not overlap.
void widen(DataType type, ReduceOp op, const void* from, void* to, std::size_t elements);

/// `partial`, the combination of all `ranks` ranks' values, as elements of `type` at `to`: averages
/// are divided, half types rounded. Writes over `partial`, which may be at `to` if the types are
/// the same.
void complete(DataType type, ReduceOp op, int ranks, Buffer partial, void* to);

}  // namespace ddprun::collectives
