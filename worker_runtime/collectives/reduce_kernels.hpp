// Combines the same elements of all ranks into one result. Every path of every backend goes through
// these functions, so that a result has the same bits whichever way it took.
#pragma once

#include <ddprun/buffer.hpp>

#include <cstddef>

namespace ddprun::collectives {

/// Combines `elements` elements of each of the `source_count` sources, in their order, and stores
/// the result to each of the `destination_count` destinations. A destination may be a source itself
/// but may not overlap one otherwise. Pointers need no more than the alignment of the type.
/// Integer sums and products wrap around; averages of uint8 and int32 are summed in 64 bits.
using Combine = void (*)(const void* const* sources, std::size_t source_count,
                         void* const* destinations, std::size_t destination_count,
                         std::size_t elements);

/// The fastest version that this processor can run.
Combine combine_function(DataType type, ReduceOp op);

/// The versions there are; `available` says whether this processor has the instructions. All give
/// the same bits.
struct KernelSet {
  const char* name;
  bool (*available)();
  Combine (*find)(DataType type, ReduceOp op);
};

inline constexpr std::size_t kKernelSetCount = 3;
extern const KernelSet kKernelSets[kKernelSetCount];  ///< best first

}  // namespace ddprun::collectives
