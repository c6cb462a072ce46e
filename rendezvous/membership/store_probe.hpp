// Finds out whether a store of PyTorch, such as a torchrun hosts, is where a rendezvous of ddprun
// is expected. Runs on the executor's one thread.
#pragma once

#include <ddprun/deadline.hpp>
#include <ddprun/store.hpp>

#include <boost/asio/awaitable.hpp>

namespace ddprun::membership {

/// Returns true if a store of any version of PyTorch answers there before the deadline. Connects
/// once for each dialect of its protocol, asks a question that changes nothing and never throws on
/// account of the answer. A store of ddprun gives the same answers.
boost::asio::awaitable<bool> answers_as_store(StoreEndpoint endpoint, Deadline deadline);

}  // namespace ddprun::membership
