// The client's half of one connection: connects with retries, greets, sends requests, reads
// replies, and turns whatever goes wrong into an Error that names who asked whom for what. Blocks.
// For one thread at a time.
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

/// What is being asked for, for error messages.
struct StoreCall {
  const char* operation;
  std::string_view key;  ///< as the caller named it; empty if there is none
  Deadline deadline;
};

class StoreConnection {
 public:
  /// Retries everything until the deadline, with growing pauses. Throws Error{Errc::timeout} with
  /// what went wrong last.
  static StoreConnection connect(const StoreEndpoint& endpoint, Deadline deadline);

  const StoreEndpoint& endpoint() const { return endpoint_; }
  std::string local_address() const { return socket_.local_address(); }

  // All that follow throw Error and then close the connection, unless said otherwise.

  void send(const wire::Request& request, const StoreCall& call);

  template <typename Integer>
  Integer receive_integer(const StoreCall& call) {
    char bytes[sizeof(Integer)];
    receive(bytes, sizeof bytes, call);
    return wire::load_integer<Integer>(bytes);
  }

  std::string receive_string(const StoreCall& call);

  /// Receives the answer to a WAIT or BARRIER. If the deadline passes the wait is cancelled, an
  /// Error{Errc::timeout} is thrown and the connection stays open.
  void receive_end_of_wait(const StoreCall& call);

  /// An answer that the protocol does not allow here.
  [[noreturn]] void fail_protocol(const StoreCall& call, const std::string& what);

 private:
  explicit StoreConnection(const StoreEndpoint& endpoint) : endpoint_(endpoint) {}

  std::string greet(Deadline deadline);
  void receive(char* bytes, std::size_t count, const StoreCall& call);
  void check(const Transfer& transfer, const StoreCall& call);
  [[noreturn]] void fail(Errc code, const StoreCall& call, const std::string& what);

  OwnProcess process_;  ///< answers to two processes would get mixed up
  StoreEndpoint endpoint_;
  ClientSocket socket_;
  std::string outgoing_;  ///< the request being sent
};

}  // namespace ddprun
