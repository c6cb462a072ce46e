// Client side of one connection: connects with retries, sends requests and reads replies. Converts
// each failure into an Error that names the request and the server. Blocks. For one thread at a
// time.
#pragma once

#include "rendezvous/base/own_process.hpp"
#include "rendezvous/store/client_socket.hpp"
#include "rendezvous/wire/bytes.hpp"
#include "rendezvous/wire/request.hpp"
#include <ddprun/deadline.hpp>
#include <ddprun/error.hpp>
#include <ddprun/store.hpp>

#include <string>
#include <string_view>

namespace ddprun {

/// Describes a request in error messages.
struct StoreCall {
  const char* operation;
  std::string_view key;  ///< key as passed by the caller; empty if none
  Deadline deadline;
};

class StoreConnection {
 public:
  /// Retries until the deadline with growing pauses. Throws Error{Errc::timeout} with the last
  /// problem.
  static StoreConnection connect(const StoreEndpoint& endpoint, Deadline deadline);

  const StoreEndpoint& endpoint() const { return endpoint_; }
  std::string local_address() const { return socket_.local_address(); }

  // The following functions throw Error and then close the connection, unless stated otherwise.

  void send(const wire::Request& request, const StoreCall& call);

  template <typename Integer>
  Integer receive_integer(const StoreCall& call) {
    char bytes[sizeof(Integer)];
    receive(bytes, sizeof bytes, call);
    return wire::load_integer<Integer>(bytes);
  }

  std::string receive_string(const StoreCall& call);

  /// Receives the answer to a WAIT or BARRIER. At the deadline, cancels the wait and throws
  /// Error{Errc::timeout}; the connection stays open.
  void receive_end_of_wait(const StoreCall& call);

  /// Reports an answer that violates the protocol.
  [[noreturn]] void throw_protocol_error(const StoreCall& call, const std::string& what);

 private:
  explicit StoreConnection(const StoreEndpoint& endpoint) : endpoint_(endpoint) {}

  std::string greet(Deadline deadline);
  void receive(char* bytes, std::size_t count, const StoreCall& call);
  void check(const Transfer& transfer, const StoreCall& call);
  [[noreturn]] void fail(Errc code, const StoreCall& call, const std::string& what);

  OwnProcess process_;  ///< a forked child must not share the connection
  StoreEndpoint endpoint_;
  ClientSocket socket_;
  std::string outgoing_;  ///< the request being sent
};

}  // namespace ddprun
