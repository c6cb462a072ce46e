// Asks the thread that preload_inspection.py starts in a worker for the worker's state. Runs on the
// agent's thread.
#pragma once

#include "rendezvous/base/held_path.hpp"
#include <ddprun/deadline.hpp>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>

#include <optional>
#include <string>
#include <sys/types.h>

namespace ddprun {

/// Returns true if a thread has listened in this folder of a worker.
bool has_inspection(const HeldPath& folder);

/// Returns the answer, or what has arrived of it at the deadline; nullopt if the process does not
/// listen. See parse_python_answer().
boost::asio::awaitable<std::optional<std::string>> request_python_answer(
    boost::asio::any_io_executor executor, pid_t pid, HeldPath folder, Deadline deadline);

/// Removes the socket from the folder, whose worker has ended.
void remove_inspection(const HeldPath& folder) noexcept;

}  // namespace ddprun
