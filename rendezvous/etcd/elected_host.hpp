// Host of a run whose coordinator is elected through etcd. Any node may be elected; if it is lost,
// another node is elected. Uses etcd only for the election and to find the coordinator.
//
// The elected node holds a lease in etcd, treats it as slightly shorter than etcd does
// (held_lease.hpp), and steps down if it cannot renew it in time. Its writes are conditional on its
// election. There are therefore never two coordinators.
#pragma once

#include "rendezvous/etcd/settings.hpp"
#include "rendezvous/etcd/term.hpp"
#include "rendezvous/membership/host.hpp"
#include "rendezvous/membership/messages.hpp"

#include <memory>

namespace ddprun::etcd {

/// Creates the host. `self` is this node's Join. Ignores `choice.endpoint` and `.is_host`. Calls
/// `on_renewal` for terms of this node. Blocks on TLS files; throws Error if they are unusable.
std::unique_ptr<membership::Host> elect_host(boost::asio::any_io_executor executor,
                                             EtcdSettings etcd, membership::HostChoice choice,
                                             membership::Join self, RenewalCallback on_renewal,
                                             Log log);

}  // namespace ddprun::etcd
