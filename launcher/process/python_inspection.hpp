// Asks the thread that preload_inspection.py starts in a worker for the worker's state. Runs on the
// agent's thread.
#pragma once

#include <ddprun/deadline.hpp>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>

#include <optional>
#include <string>
#include <sys/types.h>

namespace ddprun {

/// Returns the answer, or what has arrived of it at the deadline; nullopt if the process does not
/// listen on the socket with this name (ProcessRequest::inspection_socket). See
/// parse_python_answer().
boost::asio::awaitable<std::optional<std::string>> request_python_answer(
    boost::asio::any_io_executor executor, pid_t pid, std::string socket_name, Deadline deadline);

}  // namespace ddprun
