// The coordinator's ends of the connections of a run's agents: lets in who knows the secret and
// joins in time, keeps the places of those who have not within bounds, and hands on what the others
// say. Decides nothing about the run. Runs on the executor's one thread.
#pragma once

#include "rendezvous/membership/coordination.hpp"
#include "rendezvous/security/secret.hpp"
#include <ddprun/log.hpp>

#include <boost/asio/any_io_executor.hpp>

#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::membership {

class AgentSessions {
 public:
  /// None is called any more after close_all().
  struct Listener {
    /// A message of a node; its first one is Join, and it has no other.
    std::function<void(NodeId node, NodeMessage message)> on_message;
    /// Its connection has ended, and not by close_connection().
    std::function<void(NodeId node, const std::string& reason)> lose;
    /// A connection cannot be served for a reason of our own, like a lack of memory.
    std::function<void(const std::exception_ptr& failure)> fail;
  };

  /// Of `settings` the number of nodes and the time limits of connections count. `secret` is null
  /// in an open run, else it outlives this. `log` gets what operators should know of peers that
  /// misbehave.
  AgentSessions(boost::asio::any_io_executor executor, const Settings& settings,
                const security::Secret* secret, Listener listener, Log log);
  AgentSessions(const AgentSessions&) = delete;
  AgentSessions& operator=(const AgentSessions&) = delete;
  ~AgentSessions();  ///< as close_all()

  /// Takes over a connection of which these bytes, the first ones, have been read.
  void admit(int fd, std::string_view bytes);

  /// To a node that may have gone.
  void send(NodeId node, const CoordinatorMessage& message);

  /// Closes the connection once everything said before has been sent.
  void close_connection(NodeId node);

  /// Closes all connections; no others are taken.
  void close_all();

  /// Whether a node that has joined has reached us from this address.
  bool has_node_at(const std::string& address) const;

  /// Which nodes were refused and why, a line each.
  std::vector<std::string> refusals() const;

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;  ///< shared with the coroutines that read connections
};

}  // namespace ddprun::membership
