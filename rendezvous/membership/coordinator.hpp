// Performs the actions of coordination.hpp over the connections of a run's agents. The single
// writer of the run's membership; runs in the process of one of the agents, on the executor's
// single thread.
#pragma once

#include "rendezvous/membership/coordination.hpp"
#include "rendezvous/security/secret.hpp"
#include <ddprun/deadline.hpp>
#include <ddprun/log.hpp>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>

#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::membership {

/// Authority of a coordinator that can be replaced. By default it is unlimited, and no state of the
/// run outlives the coordinator.
struct LeadershipTerm {
  std::optional<RunRecord> record{};  ///< from the previous coordinator
  /// Returns whether the authority lasts. No decisions are made once it returns false.
  std::function<bool()> is_held{};
  /// Persists state that must outlive the coordinator. Returns false on failure; later actions are
  /// then dropped.
  std::function<boost::asio::awaitable<bool>(KeepRecord)> keep{};
};

class Coordinator {
 public:
  /// `secret` is null in an open run; otherwise it outlives this object. `clear_store` empties the
  /// workers' store before each round. `log` receives warnings about misbehaving peers.
  Coordinator(boost::asio::any_io_executor executor, Settings settings,
              const security::Secret* secret, LeadershipTerm term,
              std::function<void()> clear_store, const Log& log);
  Coordinator(const Coordinator&) = delete;
  Coordinator& operator=(const Coordinator&) = delete;
  ~Coordinator();  ///< closes all connections

  /// Takes ownership of a connection whose first bytes, `bytes`, have been read.
  void admit(int fd, std::string_view bytes);

  /// Receives each message for the agent of this process, and nullopt when the coordinator ends its
  /// membership.
  using LocalListener = std::function<void(const std::optional<CoordinatorMessage>& message)>;

  /// Connects the agent of this process. Calls `listener` from the executor, in message order,
  /// until close_local().
  void open_local(LocalListener listener);
  void send_local(const NodeMessage& message);
  void close_local();

  /// Ends the round and forms no other; another node will coordinate the run.
  void resign(const std::string& reason);

  /// Returns when the run has an outcome and the agents have left or timed out, when no node has
  /// workers after resign(), or on failure.
  boost::asio::awaitable<void> wait_until_over();

  /// Returns true if wait_until_over() would return immediately.
  bool is_over() const;

  /// Returns the reason why the coordinator failed, such as lack of memory; null if it has not.
  /// After a failure all connections are closed.
  std::exception_ptr failure() const;

  /// Returns true if a joined node is connected from this address.
  bool has_node_at(const std::string& address) const;

  /// Returns the refused nodes and reasons, one line each, for the end of the run.
  std::vector<std::string> refusals() const;

  /// Returns true if nodes that continue the run are connected.
  bool has_nodes() const;

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;  ///< shared with the coroutines that read connections
};

}  // namespace ddprun::membership
