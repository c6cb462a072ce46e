// Removes a key of a group from the store after an error.
#pragma once

#include <ddprun/store.hpp>

#include <string>

namespace ddprun {

/// Uses a new connection, since a request that has failed closes its own. The key remains if the
/// store does not respond within a second.
void forget_key(const StoreEndpoint& endpoint, const std::string& key) noexcept;

}  // namespace ddprun
