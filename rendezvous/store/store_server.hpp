// Server of the rendezvous store: PyTorch's TCPStore protocol, all dialects on one port. Runs on
// the executor's single thread and must only be called from it; nothing blocks. store_table.hpp
// implements the requests.
//
// A client that sends malformed, incomplete or oversized requests loses only its own connection.
// The protocol has no authentication: local clients are checked by user, remote clients by address.
#pragma once

#include "rendezvous/store/peer_user.hpp"
#include "rendezvous/store/store_limits.hpp"
#include "rendezvous/wire/request.hpp"
#include <ddprun/log.hpp>
#include <ddprun/store.hpp>

#include <boost/asio/any_io_executor.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace ddprun {

struct StoreServerOptions {
  /// Address or name of this machine to listen at; "0.0.0.0" or "::" for all addresses.
  std::string address = "127.0.0.1";
  std::uint16_t port = 0;  ///< 0: chosen by the kernel
  Log log;  ///< receives warnings, each kind at its 1st, 2nd, 4th, 8th ... occurrence
  StoreLimits limits;

  /// Connections that start with `other_greeting` use another protocol, so that agents and workers
  /// can share a port. `hand_over` receives and owns the socket, together with the bytes already
  /// read. No store request may start with it. Empty: no other protocol.
  std::string other_greeting{};
  std::function<void(int fd, std::string_view bytes)> hand_over{};

  /// Checks the user of local connections of both protocols. If set, connections with an unknown
  /// user are refused.
  UserCheck admits_user = is_root_or_own_user;

  /// Checks the numeric address of store clients whose user is not checked; empty: all are
  /// accepted.
  std::function<bool(const std::string& address)> admits_address{};

  /// Returns why a request is refused and its connection closed; nullopt to accept it. Not set: no
  /// request is refused.
  std::function<std::optional<std::string>(const wire::Request& request)> objection_to{};
};

/// Current contents of the server, and counters since its creation.
struct StoreServerStats {
  std::size_t connections = 0;
  std::size_t keys = 0;
  std::size_t waits = 0;           ///< pairs of a client and a key that it waits for or watches
  std::size_t bytes = 0;           ///< table, half-received requests and unread replies
  std::uint64_t accepted = 0;      ///< connections accepted, including the other protocol's
  std::uint64_t malformed = 0;     ///< connections closed for bytes that are not the protocol
  std::uint64_t refused = 0;       ///< connections closed for an impossible request
  std::uint64_t slow_readers = 0;  ///< connections closed because replies were not read
  /// connections closed immediately because of connections_max
  std::uint64_t over_connections = 0;
  std::uint64_t unauthorized = 0;     ///< connections closed for their user or address
  std::uint64_t accept_failures = 0;  ///< failures of accept()
};

class StoreServer {
 public:
  /// Binds and listens; clients can connect immediately and are served after start(). Throws
  /// Error{Errc::usage} if the address is not one of this machine and Error{Errc::system} if the
  /// port is in use, naming its holder if known.
  StoreServer(boost::asio::any_io_executor executor, StoreServerOptions options);

  StoreServer(const StoreServer&) = delete;
  StoreServer& operator=(const StoreServer&) = delete;

  /// Calls stop().
  ~StoreServer();

  /// Returns the address as configured and the bound port.
  const StoreEndpoint& endpoint() const;

  /// Starts to serve clients.
  void start();

  /// Resets the store for the next attempt on the same port: closes all connections, including
  /// pending ones, and deletes all keys. Call it after the old workers have ended and before the
  /// new ones start, so that old clients never access the new attempt's keys.
  void new_attempt();

  /// Closes the port and all connections, after sending pending replies as far as the sockets
  /// accept them. May be called twice. The executor need not run afterwards.
  void stop();

  StoreServerStats stats() const;

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;  ///< shared with the coroutines, which may outlive this
};

}  // namespace ddprun
