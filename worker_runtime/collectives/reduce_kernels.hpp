// Combines the elements of all ranks. All paths of all backends use these functions, so that
// results are bitwise equal.
#pragma once

#include <ddprun/buffer.hpp>

#include <cstddef>
#include <span>

namespace ddprun::collectives {

/// Combines `elements` elements of `source_count` sources, in their order, and stores the result to
/// `destination_count` destinations. A destination may equal a source but must not overlap one
/// otherwise. Pointers must be aligned for the type. Integer sums and products wrap around;
/// averages of uint8 and int32 are summed in 64 bits.
using Combine = void (*)(const void* const* sources, std::size_t source_count,
                         void* const* destinations, std::size_t destination_count,
                         std::size_t elements);

/// Returns the fastest version that this processor supports.
Combine combine_function(DataType type, ReduceOp op);

/// A version for an instruction set; `available` returns whether the processor supports it. All
/// versions have bitwise equal results.
struct KernelSet {
  const char* name;
  bool (*available)();
  Combine (*find)(DataType type, ReduceOp op);
};

/// Returns the versions for this kind of processor, best first.
std::span<const KernelSet> kernel_sets();

}  // namespace ddprun::collectives
