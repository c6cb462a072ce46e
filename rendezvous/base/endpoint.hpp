// Endpoints as text.
#pragma once

#include <ddprun/store.hpp>

#include <string>

namespace ddprun {

/// Returns "host:port", with brackets around an IPv6 address.
std::string to_string(const StoreEndpoint& endpoint);

}  // namespace ddprun
