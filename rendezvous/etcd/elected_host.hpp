// The host of a run that finds its coordinator through etcd: any node may be elected, and another
// one is when it is lost. etcd is asked only while a coordinator is looked for, and by the
// coordinator itself. Runs on the executor's one thread.
//
// Whoever is elected holds a lease in etcd, which it counts a little shorter than etcd does
// (held_lease.hpp), and gives up its leadership when it cannot renew that in time; what it writes
// down it writes only as long as it is the one that was elected. So there are never two.
#pragma once

#include "rendezvous/etcd/settings.hpp"
#include "rendezvous/etcd/term.hpp"
#include "rendezvous/membership/host.hpp"
#include "rendezvous/membership/messages.hpp"

#include <memory>

namespace ddprun::etcd {

/// `self` is what this node would say when joining. `choice.endpoint` and `.is_host` do not count.
/// `on_renewal` is for the terms of this node. Throws Error if TLS is wanted and its files cannot
/// be used; blocks to read them.
std::unique_ptr<membership::Host> elect_host(boost::asio::any_io_executor executor,
                                             EtcdSettings etcd, membership::HostChoice choice,
                                             membership::Join self, TermNotice on_renewal, Log log);

}  // namespace ddprun::etcd
