// Addresses of a host, found within a deadline. For blocking callers; any thread.
#pragma once

#include <ddprun/deadline.hpp>
#include <ddprun/store.hpp>

#include <netdb.h>

#include <functional>
#include <memory>
#include <string>

namespace ddprun {

struct NameLookup {
  std::unique_ptr<addrinfo, void (*)(addrinfo*)> addresses{nullptr, &::freeaddrinfo};
  std::string problem;  ///< empty if there are addresses
};

/// Addresses of the endpoint to connect to. A numeric one is never looked up.
NameLookup look_up(const StoreEndpoint& endpoint, Deadline deadline);

/// What `resolve` returns, or that it has not come in time. It runs on a thread of its own, because
/// nothing can interrupt the system's resolver, and may go on after the deadline: it must own all
/// that it uses, and its late result is thrown away.
NameLookup look_up_by(std::function<NameLookup()> resolve, Deadline deadline);

}  // namespace ddprun
