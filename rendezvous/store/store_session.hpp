// State of a client's connection to the store: received requests and pending replies. Runs on the
// executor's single thread; nothing blocks.
#pragma once

#include "rendezvous/store/waiting_clients.hpp"
#include "rendezvous/wire/request_parser.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/ip/tcp.hpp>

#include <cstddef>
#include <optional>
#include <string>

namespace ddprun {

/// Shared by the server and the coroutine that serves the connection; either may detect its end
/// first.
struct StoreSession {
  /// Approximate memory of a connection in addition to held_bytes().
  static constexpr std::size_t kOverheadBytes = 4096;

  /// Takes ownership of a connected socket.
  StoreSession(const boost::asio::any_io_executor& executor, int fd, ClientId client);

  bool is_open() const { return socket.is_open(); }
  bool needs_turn() const { return deferred || has_more || !rest.empty(); }
  std::size_t unread_bytes() const { return replies.size() - taken_bytes; }

  /// Memory of requests and replies.
  std::size_t held_bytes() const;

  /// Closes the socket and frees all memory; the coroutine may outlive it.
  void close();

  /// Sends as many replies as the socket accepts. Returns false on failure.
  bool send_replies();

  /// Returns "client 10.0.0.1:4711", or "a client" if the address is unknown.
  std::string describe_peer() const;

  boost::asio::ip::tcp::socket socket;
  ClientId id;
  wire::RequestParser parser;
  std::string replies;                    ///< unsent replies, after `taken_bytes`
  std::size_t taken_bytes = 0;            ///< sent bytes at the front of `replies`
  bool is_write_due = false;              ///< in the server's queue of clients to write to
  std::size_t counted_bytes = 0;          ///< held_bytes() when the server counted it last
  std::optional<wire::Request> deferred;  ///< the next request, which waits for a long turn
  std::string rest;                       ///< received bytes after `deferred`
  bool has_more = false;                  ///< the socket may hold bytes that have not been read
  bool is_new = true;                     ///< may still turn out to use the other protocol
  bool is_address_due = false;            ///< to be checked if it uses the store's protocol
  std::string opening;                    ///< received bytes while the protocol is unknown
};

}  // namespace ddprun
