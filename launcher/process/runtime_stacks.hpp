// The agent's side of rendezvous/control/thread_stack.hpp: requests the stacks of a worker's
// threads from the worker runtime. Runs on the agent's thread.
#pragma once

#include "rendezvous/base/held_path.hpp"
#include "rendezvous/control/thread_stack.hpp"
#include <ddprun/deadline.hpp>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>

#include <cstddef>
#include <sys/types.h>
#include <vector>

namespace ddprun {

/// Maximum threads per worker; enough for a few large thread pools.
inline constexpr std::size_t kStackThreadsMax = 256;

/// Returns the stacks of the threads of `pid` that respond, ordered by ID, when all have responded
/// or at the deadline; empty if none responds. `folder`: folder of its error file. REQUIRES: the
/// process handles the signal and has not been reaped, so its PID is not reused.
boost::asio::awaitable<std::vector<control::ThreadStack>> request_runtime_stacks(
    boost::asio::any_io_executor executor, pid_t pid, HeldPath folder, Deadline deadline);

}  // namespace ddprun
