// Copying to memory that is in another processor's caches.
#pragma once

#include <cstddef>

namespace ddprun::collectives {

/// Like memcpy, with non-temporal stores: cache lines held by other processors are not fetched
/// before they are overwritten, which would take several times as long as the copy. A later atomic
/// store by the caller publishes all of the data.
void stream_copy(std::byte* to, const std::byte* from, std::size_t bytes);

}  // namespace ddprun::collectives
