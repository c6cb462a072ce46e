// Which node hosts the rendezvous of a run: the only one; the one that has the endpoint's address
// or was told to; or the one that is elected through etcd. Runs on the agent's one thread.
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
  /// `plan` outlives this; `users` may take part on this machine. Throws Error if the secret's file
  /// cannot be used.
  HostSearch(boost::asio::any_io_executor executor, const LaunchPlan& plan, UserCheck users,
             Log log);

  /// The host, as this node sees it; null if it was interrupted. `self` is what this node will say
  /// of itself, and `on_renewal` hears of each term of its own. Throws Error if the endpoint's
  /// name stays unknown (Errc::network), or this node cannot listen there. Called once.
  boost::asio::awaitable<std::unique_ptr<membership::Host>> find(membership::Join self,
                                                                 etcd::TermNotice on_renewal);

  /// A name that is not known may be looked up for long.
  void interrupt();

  /// Null in an open run.
  const security::Secret* secret() const { return secret_ ? &*secret_ : nullptr; }

 private:
  boost::asio::any_io_executor executor_;
  const LaunchPlan& plan_;
  const UserCheck users_;
  Log log_;
  const std::optional<security::Secret> secret_;  ///< nothing: the run is open
  boost::asio::cancellation_signal interruption_;
  bool is_interrupted_ = false;
};

}  // namespace ddprun
