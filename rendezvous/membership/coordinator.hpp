// Carries out what coordination.hpp decides: keeps the connections of a run's agents, hears them
// and tells them. One of the run's agents has it beside its own work; it is the single writer of
// the run's membership. Runs on the executor's one thread.
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

/// By what right one coordinates, where others may take over. As made: for ever, and nothing of
/// the run outlives the coordinator.
struct LeadershipTerm {
  std::optional<RunRecord> record{};  ///< left by the coordinator before
  /// Nothing is decided any more once this is false.
  std::function<bool()> is_held{};
  /// Writes down what must outlive the coordinator; false: it cannot be, and nothing that was to
  /// follow is carried out.
  std::function<boost::asio::awaitable<bool>(KeepRecord)> keep{};
};

class Coordinator {
 public:
  /// `secret` is null in an open run, else it outlives this. `clear_store` empties the workers'
  /// store before each round. `log` gets what operators should know of peers that misbehave.
  Coordinator(boost::asio::any_io_executor executor, Settings settings,
              const security::Secret* secret, LeadershipTerm term,
              std::function<void()> clear_store, const Log& log);
  Coordinator(const Coordinator&) = delete;
  Coordinator& operator=(const Coordinator&) = delete;
  ~Coordinator();  ///< closes all connections

  /// Takes over a connection of which these bytes, the first ones, have been read.
  void admit(int fd, std::string_view bytes);

  /// Called with each message for the agent of this process, and with nothing when the coordinator
  /// ends its membership.
  using LocalListener = std::function<void(const std::optional<CoordinatorMessage>& message)>;

  /// Connects the agent of this process, which has no other connection. `listener` is called from
  /// the executor, in the order of the messages, until close_local().
  void open_local(LocalListener listener);
  void send_local(const NodeMessage& message);
  void close_local();

  /// Ends the round and forms no other: another node is to coordinate the run.
  void resign(const std::string& reason);

  /// Returns when the run has its outcome and the agents have taken leave, or had time to; or when
  /// no node has workers after resign(); or when it has failed.
  boost::asio::awaitable<void> wait_until_over();

  /// Whether there is nothing to wait for.
  bool is_over() const;

  /// Why it cannot go on (a lack of memory, say): all connections have been closed, and no more are
  /// taken. Nothing: it can.
  std::exception_ptr failure() const;

  /// Whether a node that has joined has reached this one from the address.
  bool has_node_at(const std::string& address) const;

  /// Which nodes were refused and why, a line each, for the end of the run.
  std::vector<std::string> refusals() const;

  /// Whether nodes are connected that go on with the run.
  bool has_nodes() const;

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;  ///< shared with the coroutines that read connections
};

}  // namespace ddprun::membership
