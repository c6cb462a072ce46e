// An agent's connection to the coordinator. Sends without waiting; messages are authenticated and
// sealed as the run requires. Runs on the executor's single thread.
#pragma once

#include "rendezvous/membership/dialogue.hpp"
#include "rendezvous/membership/message_channel.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>

#include <optional>
#include <string>

namespace ddprun::membership {

class AgentConnection {
 public:
  /// Takes ownership of a connected, non-blocking TCP socket. `secret` is null in an open run;
  /// otherwise it outlives this object.
  AgentConnection(boost::asio::any_io_executor executor, int fd, const security::Secret* secret,
                  const std::string& run_id);

  /// Sends immediately, or once the peer has authenticated.
  void send(const NodeMessage& message);

  /// Returns the next message, or nullopt once the connection has ended. Only one call may be
  /// pending.
  boost::asio::awaitable<std::optional<CoordinatorMessage>> receive();

  /// Ends receive(). Keeps sending queued messages for at most one second.
  void close() { channel_.close(); }

  /// Returns true if the peer has sent nothing, like a store after bytes that are no request.
  bool is_silent() const { return dialogue_.first_bytes().empty(); }

  /// Returns why the connection ended: "its connection was closed", "sent a message of ...".
  std::string end_reason() const;

  /// See AgentDialogue::is_proven().
  bool is_proven() const { return dialogue_.is_proven(); }

  // Addresses without ports.
  const std::string& local_address() const { return channel_.local_address(); }
  const std::string& peer_address() const { return channel_.peer_address(); }

 private:
  MessageChannel channel_;
  AgentDialogue dialogue_;
};

}  // namespace ddprun::membership
