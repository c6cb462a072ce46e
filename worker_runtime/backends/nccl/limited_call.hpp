// Runs a driver call that may hang on a separate thread, so that the caller gets an error instead.
// A hanging thread is detached and keeps its arguments.
#pragma once

#include <ddprun/deadline.hpp>
#include <ddprun/error.hpp>

#include <future>
#include <string>
#include <thread>
#include <utility>

namespace ddprun::nccl {

/// Time limit of calls that may take seconds while the driver initialises all devices.
inline constexpr std::chrono::seconds kDriverTimeout{60};

/// Returns or throws the result of `call`. Throws Error{Errc::timeout}, starting with `what`, if it
/// does not return in time. `call` must own its arguments; a late result is destroyed on its
/// thread.
template <typename Call>
auto call_by(Deadline deadline, const std::string& what, Call call) {
  std::packaged_task<decltype(call())()> task(std::move(call));
  auto result = task.get_future();
  std::thread thread(std::move(task));
  if (result.wait_until(deadline.time()) != std::future_status::ready) {
    thread.detach();
    throw Error(Errc::timeout, what + ": its driver has not answered " + deadline.describe());
  }
  thread.join();
  return result.get();
}

}  // namespace ddprun::nccl
