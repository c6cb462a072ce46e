// Determines the node that hosts the rendezvous of a run: the only node, the node with the
// endpoint's address, the node configured as host, or the node elected through etcd. Runs on the
// agent's thread.
#pragma once

#include "launcher/plan/launch_plan.hpp"
#include "rendezvous/etcd/elected_host.hpp"
#include "rendezvous/membership/host.hpp"
#include "rendezvous/security/secret.hpp"
#include <ddprun/log.hpp>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/cancellation_signal.hpp>

#include <memory>
#include <optional>

namespace ddprun {

class HostSearch {
 public:
  /// `plan` outlives this object. `users` are admitted on this machine. Throws Error if the
  /// secret's file cannot be used.
  HostSearch(boost::asio::any_io_executor executor, const LaunchPlan& plan, UserCheck users,
             Log log);

  /// Returns the host, local or remote, or null if interrupted. `self` is this node's join request.
  /// Calls `on_renewal` for each term that this node wins or renews. Throws Error if the endpoint's
  /// name cannot be resolved (Errc::network), or if this node cannot listen there. Must be called
  /// once.
  boost::asio::awaitable<std::unique_ptr<membership::Host>> find(membership::Join self,
                                                                 etcd::RenewalCallback on_renewal);

  /// Ends find() early, since resolving an unknown name may take a long time.
  void interrupt();

  /// Returns the secret; null in an open run.
  const security::Secret* secret() const { return secret_ ? &*secret_ : nullptr; }

 private:
  boost::asio::any_io_executor executor_;
  const LaunchPlan& plan_;
  const UserCheck users_;
  Log log_;
  const std::optional<security::Secret> secret_;  ///< nullopt in an open run
  boost::asio::cancellation_signal interruption_;
  bool is_interrupted_ = false;
};

}  // namespace ddprun
