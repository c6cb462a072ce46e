// Completion token of the project's coroutines.
#pragma once

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace ddprun {

/// `co_await operation(kAwait)` returns a tuple whose first element is the error; nothing is
/// thrown.
inline constexpr auto kAwait = boost::asio::as_tuple(boost::asio::use_awaitable);

}  // namespace ddprun
