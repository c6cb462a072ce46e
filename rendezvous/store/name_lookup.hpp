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

/// The same for callers that must not block: the look-up runs on a thread of its own, which goes on
/// alone if this object goes first.
class BackgroundLookup {
 public:
  explicit BackgroundLookup(const StoreEndpoint& endpoint);
  BackgroundLookup(const BackgroundLookup&) = delete;
  BackgroundLookup& operator=(const BackgroundLookup&) = delete;
  ~BackgroundLookup();

  /// A descriptor that is readable once the look-up has ended. It belongs to this object.
  int fd() const { return fd_; }

  /// To be called once, when the descriptor is readable.
  NameLookup take();

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;
  int fd_ = -1;
};

}  // namespace ddprun
