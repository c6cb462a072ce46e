// The server of the rendezvous store: speaks PyTorch's TCPStore protocol, every dialect on one
// port, to any number of clients. Runs on the executor's one thread, from which alone it may be
// called; nothing here blocks. What a request means is decided in store_table.hpp.
//
// A client that sends malformed, half or too large requests loses its own connection at most. The
// protocol has no password: clients on this machine are admitted by their user, clients on other
// machines by their address.
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
  std::uint16_t port = 0;  ///< 0: the kernel chooses
  Log log;                 ///< gets warnings, each kind at its 1st, 2nd, 4th, 8th ... time
  StoreLimits limits;

  /// Connections that begin with `other_greeting` are not the store's: `hand_over` gets the socket,
  /// which is its own from then on, and what has been read of it. So agents and workers can share
  /// a port. No request of any dialect may begin like it. Empty: there is no other protocol.
  std::string other_greeting{};
  std::function<void(int fd, std::string_view bytes)> hand_over{};

  /// For connections from this machine, both protocols'. If it is not empty, connections whose user
  /// is not known are refused, too.
  UserCheck admits_user = is_root_or_own_user;

  /// Whether a client of the store at this address, numeric and without a port, is served if
  /// `admits_user` has not decided; empty: each is.
  std::function<bool(const std::string& address)> admits_address{};

  /// Why a request is refused and its connection closed; its result is empty for all others. If it
  /// is empty itself, no request is refused.
  std::function<std::string(const wire::Request& request)> objection_to{};
};

/// What the server holds now, and how often it had to refuse somebody since it was made.
struct StoreServerStats {
  std::size_t connections = 0;
  std::size_t keys = 0;
  std::size_t waits = 0;               ///< pairs of a client and a key that it waits for or watches
  std::size_t bytes = 0;               ///< table, half-received requests and unread replies
  std::uint64_t accepted = 0;          ///< connections ever, the other protocol's too
  std::uint64_t malformed = 0;         ///< connections closed for bytes that are not the protocol
  std::uint64_t refused = 0;           ///< connections closed for a request that cannot be done
  std::uint64_t slow_readers = 0;      ///< connections closed because replies were not read
  std::uint64_t over_connections = 0;  ///< connections closed at once because there were too many
  std::uint64_t strangers = 0;         ///< connections closed for their user or address
  std::uint64_t accept_failures = 0;   ///< the operating system could not give a connection
};

class StoreServer {
 public:
  /// Binds and listens: from now on clients can connect, and are served after start(). Throws
  /// Error{Errc::usage} if the address is not one of this machine and Error{Errc::system} if the
  /// port is in use, naming the process that holds it where that can be known.
  StoreServer(boost::asio::any_io_executor executor, StoreServerOptions options);

  StoreServer(const StoreServer&) = delete;
  StoreServer& operator=(const StoreServer&) = delete;

  /// As stop().
  ~StoreServer();

  /// The address as given, and the port that is bound.
  const StoreEndpoint& endpoint() const;

  /// Begins to serve.
  void start();

  /// An empty store for the next attempt of the workers, on the same port: all connections are
  /// closed, those too that were made and not yet accepted, and all keys are forgotten. To be
  /// called when the old workers are gone and before the new ones start: whoever connected before
  /// never sees the new attempt's keys.
  void new_attempt();

  /// Closes the port and all connections. Replies already due have been sent, as far as their
  /// readers took them. May be called twice. The executor need not run afterwards.
  void stop();

  StoreServerStats stats() const;

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;  ///< shared with the coroutines, which end a little later than this
};

}  // namespace ddprun
