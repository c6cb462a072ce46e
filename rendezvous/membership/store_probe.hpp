// Recognises the store of a torchrun at the address of a rendezvous of ddprun. Runs on the
// executor's one thread.
#pragma once

#include <ddprun/deadline.hpp>
#include <ddprun/store.hpp>

#include <boost/asio/awaitable.hpp>

#include <string>

namespace ddprun::membership {

/// Returns true if a store of any version of PyTorch replies before the deadline and has keys that
/// agents of torchrun write for a run with this id. Connects once for each dialect of the protocol
/// and changes nothing. A store of ddprun does not have these keys.
boost::asio::awaitable<bool> has_torchrun(StoreEndpoint endpoint, std::string run_id,
                                          Deadline deadline);

}  // namespace ddprun::membership
