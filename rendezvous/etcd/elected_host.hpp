// Host of a run whose coordinator is elected through etcd: any node may be elected, and another is
// if it is lost. Uses etcd only to find the coordinator and as the coordinator.
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

/// `self` is this node's Join. Ignores `choice.endpoint` and `.is_host`. `on_renewal` is called for
/// terms of this node. Reads TLS files, blocking; throws Error if they are unusable.
std::unique_ptr<membership::Host> elect_host(boost::asio::any_io_executor executor,
                                             EtcdSettings etcd, membership::HostChoice choice,
                                             membership::Join self, RenewalCallback on_renewal,
                                             Log log);

}  // namespace ddprun::etcd
