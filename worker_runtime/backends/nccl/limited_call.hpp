// A call into a driver that may never come back, on a thread of its own: the thread that asked gets
// an error in its place. A thread that hangs stays behind with all that it has been given.
#pragma once

#include <ddprun/deadline.hpp>
#include <ddprun/error.hpp>

#include <future>
#include <string>
#include <thread>
#include <utility>

namespace ddprun::nccl {

/// For what takes a driver no time, or some seconds where it wakes all of a machine's devices up.
inline constexpr std::chrono::seconds kDriverTimeout{60};

/// What `call` returns or throws. Throws Error{Errc::timeout} beginning with `what` if it does not
/// come back by then; so it refers to nothing that could be gone, and its result, should there be
/// one later, is destroyed on its thread.
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
