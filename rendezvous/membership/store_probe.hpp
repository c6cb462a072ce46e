// Finds out whether the store of a torchrun is where a rendezvous of ddprun is expected. Runs on
// the executor's one thread.
#pragma once

#include <ddprun/deadline.hpp>
#include <ddprun/store.hpp>

#include <boost/asio/awaitable.hpp>

#include <string>

namespace ddprun::membership {

/// Returns true if a store of any version of PyTorch answers there before the deadline, and agents
/// of torchrun form a run with this id in it. Connects once for each dialect of its protocol, asks
/// for keys and changes nothing. A store of ddprun does not have these keys.
boost::asio::awaitable<bool> has_torchrun(StoreEndpoint endpoint, std::string run_id,
                                          Deadline deadline);

}  // namespace ddprun::membership
