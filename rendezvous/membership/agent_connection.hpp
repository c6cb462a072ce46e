// An agent's connection to the coordinator: messages out without waiting, messages in as they come,
// each proved and sealed as the run demands. Runs on the executor's one thread.
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
  /// Takes over a connected, non-blocking TCP socket. `secret` is null in an open run, else it
  /// outlives this.
  AgentConnection(boost::asio::any_io_executor executor, int fd, const security::Secret* secret,
                  const std::string& run_id);

  /// Sends at once, or as soon as the peer has proved itself.
  void send(const NodeMessage& message);

  /// Returns the next message; nothing once the connection has ended. One call at a time.
  boost::asio::awaitable<std::optional<CoordinatorMessage>> receive();

  /// Ends receive(). Messages that are still queued are sent for at most a second.
  void close() { channel_.close(); }

  /// True if the peer has sent nothing so far, as a store after bytes that are no request.
  bool is_silent() const { return dialogue_.first_bytes().empty(); }

  /// Why it has ended: "its connection was closed", "sent a message of ...".
  std::string end_reason() const;

  /// As AgentDialogue::is_proven().
  bool is_proven() const { return dialogue_.is_proven(); }

  // Addresses without ports.
  const std::string& local_address() const { return channel_.local_address(); }
  const std::string& peer_address() const { return channel_.peer_address(); }

 private:
  MessageChannel channel_;
  AgentDialogue dialogue_;
};

}  // namespace ddprun::membership
