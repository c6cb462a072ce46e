// Server side of the agents' connections: authenticates agents, disconnects those that do not join
// in time, bounds the number of pending connections, and forwards messages. Makes no decisions
// about the run. Runs on the executor's single thread.
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
  /// Callbacks. None is called after close_all().
  struct Listener {
    /// Receives a node's message; the first one is its only Join.
    std::function<void(NodeId node, NodeMessage message)> on_message;
    /// Called when a node's connection has ended, except by close_connection().
    std::function<void(NodeId node, const std::string& reason)> lose;
    /// Called when a local error, such as lack of memory, prevents serving a connection.
    std::function<void(const std::exception_ptr& failure)> fail;
  };

  /// Uses only the number of nodes and the connection timeouts of `settings`. `secret` is null in
  /// an open run; otherwise it outlives this object. `log` receives warnings about misbehaving
  /// peers.
  AgentSessions(boost::asio::any_io_executor executor, const Settings& settings,
                const security::Secret* secret, Listener listener, Log log);
  AgentSessions(const AgentSessions&) = delete;
  AgentSessions& operator=(const AgentSessions&) = delete;
  ~AgentSessions();  ///< calls close_all()

  /// Takes ownership of a connection whose first bytes, `bytes`, have been read.
  void admit(int fd, std::string_view bytes);

  /// Sends a message. Does nothing if the node has disconnected.
  void send(NodeId node, const CoordinatorMessage& message);

  /// Closes the connection after sending all queued messages.
  void close_connection(NodeId node);

  /// Closes all connections and accepts no others.
  void close_all();

  /// Returns true if a joined node is connected from this address.
  bool has_node_at(const std::string& address) const;

  /// Returns the refused nodes and reasons, one line each.
  std::vector<std::string> refusals() const;

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;  ///< shared with the coroutines that read connections
};

}  // namespace ddprun::membership
