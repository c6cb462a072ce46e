// Copying to memory that another processor has just read.
#pragma once

#include <cstddef>

namespace ddprun::collectives {

/// As memcpy, but past this processor's caches: lines that others hold need not be fetched from
/// them first to be overwritten, which takes several times as long as the copy. Whoever publishes
/// the data by an atomic store afterwards publishes all of it.
void stream_copy(std::byte* to, const std::byte* from, std::size_t bytes);

}  // namespace ddprun::collectives
