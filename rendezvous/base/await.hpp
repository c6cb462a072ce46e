// Completion token of the project's coroutines.
#pragma once

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace ddprun {

/// Makes `co_await operation(kAwait)` return a tuple whose first element is the error, instead of
/// throwing.
inline constexpr auto kAwait = boost::asio::as_tuple(boost::asio::use_awaitable);

}  // namespace ddprun
