// The agent's side of rendezvous/control/thread_stack.hpp: asks a worker that links the runtime for
// the stacks of its threads. Runs on the agent's one thread.
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

/// Threads asked of one worker: those of a few large thread pools.
inline constexpr std::size_t kThreadsAskedMax = 256;

/// What the threads of `pid` answered until all had or the deadline passed, ordered by id; empty if
/// none did. `folder` is that of its error file. The process must handle the signal; its number
/// must not be free for others while this starts (it has not been reaped).
boost::asio::awaitable<std::vector<control::ThreadStack>> ask_runtime_for_stacks(
    boost::asio::any_io_executor executor, pid_t pid, HeldPath folder, Deadline deadline);

}  // namespace ddprun
