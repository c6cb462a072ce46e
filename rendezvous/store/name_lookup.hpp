// Name look-up with a deadline. For blocking callers; thread-safe.
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

/// Returns the endpoint's addresses. Numeric addresses are not looked up.
NameLookup look_up(const StoreEndpoint& endpoint, Deadline deadline);

/// Returns the result of `resolve`, or a timeout. `resolve` runs on its own thread, since the
/// system's resolver cannot be interrupted. It may outlive the call and must own all that it uses;
/// a late result is discarded.
NameLookup look_up_by(std::function<NameLookup()> resolve, Deadline deadline);

/// Look-up for non-blocking callers. Runs on its own thread, which may outlive this object.
class BackgroundLookup {
 public:
  explicit BackgroundLookup(const StoreEndpoint& endpoint);
  BackgroundLookup(const BackgroundLookup&) = delete;
  BackgroundLookup& operator=(const BackgroundLookup&) = delete;
  ~BackgroundLookup();

  /// Returns a descriptor that is readable once the look-up has ended; owned by this object.
  int fd() const { return fd_; }

  /// Returns the result. REQUIRES: the descriptor is readable; called once.
  NameLookup take();

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;
  int fd_ = -1;
};

}  // namespace ddprun
