// An agent's connections to the coordinator, at most one at a time, as requested by
// membership/node_state_machine.hpp. Makes no decisions. Runs on the agent's thread.
#pragma once

#include "launcher/plan/launch_plan.hpp"
#include "rendezvous/membership/agent_connection.hpp"
#include "rendezvous/membership/coordinator.hpp"
#include "rendezvous/membership/host.hpp"
#include "rendezvous/membership/node_state_machine.hpp"
#include "rendezvous/membership/peer_probe.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/steady_timer.hpp>

#include <functional>
#include <memory>
#include <string>

namespace ddprun {

class CoordinatorLink : public std::enable_shared_from_this<CoordinatorLink> {
 public:
  /// Callbacks. Not called after close().
  struct Listener {
    std::function<void(const membership::NodeEvent& event)> take;
    std::function<void(const std::string& text)> note;  ///< receives messages for the operator
  };

  /// `plan` and `secret` outlive this object. `secret` is null in an open run.
  CoordinatorLink(boost::asio::any_io_executor executor, const LaunchPlan& plan,
                  const security::Secret* secret, Listener listener);

  /// Connects to the coordinator that `finding` returns, until `give_up`. Results in Connected,
  /// ConnectionLost or JoinRejected.
  void connect(boost::asio::awaitable<membership::Found> finding, membership::Time give_up);

  /// Sends a message. Does nothing without a connection.
  void send(const membership::NodeMessage& message);

  void disconnect();
  void close();

  /// Returns the coordinator's address without port; empty without a connection.
  std::string peer_address() const;

 private:
  using Connection = std::shared_ptr<membership::AgentConnection>;
  static boost::asio::awaitable<void> run_connection(
      std::shared_ptr<CoordinatorLink> self, boost::asio::awaitable<membership::Found> finding,
      membership::Time give_up);
  boost::asio::awaitable<void> receive_messages(Connection connection);
  boost::asio::awaitable<std::string> find_end_reason(Connection connection);
  void start_probes(const Connection& connection);
  static boost::asio::awaitable<void> probe_silent(std::shared_ptr<CoordinatorLink> self,
                                                   Connection connection);
  void join_local(membership::Coordinator& coordinator);
  void on_connection_lost(const std::string& reason);
  void take(const membership::NodeEvent& event);
  void reject_join(const membership::Found& found);

  boost::asio::any_io_executor executor_;
  const LaunchPlan& plan_;
  const security::Secret* secret_;
  Listener listener_;
  StoreEndpoint endpoint_;                             ///< endpoint of the last coordinator found
  membership::Coordinator* local_ = nullptr;           ///< coordinator in this process, or null
  Connection connection_;                              ///< null without a connection
  std::unique_ptr<membership::ProbeListener> probes_;  ///< since the latest connection
  boost::asio::steady_timer probe_timer_;              ///< time of the next probe
  bool is_closed_ = false;
};

}  // namespace ddprun
