#include "worker_runtime/backends/forget_key.hpp"

#include <ddprun/deadline.hpp>

#include <chrono>
#include <exception>

namespace ddprun {

namespace {

// Enough for a responsive store.
constexpr auto kForgetTimeout = std::chrono::seconds(1);

}  // namespace

void forget_key(const StoreEndpoint& endpoint, const std::string& key) noexcept {
  try {
    const Deadline deadline = Deadline::after(kForgetTimeout);
    Store::connect(endpoint, deadline).erase(key, deadline);
  } catch (const std::exception&) {
    // The caller's error is the important one.
  }
}

}  // namespace ddprun
