#include "rendezvous/store/store_connection.hpp"

#include "rendezvous/base/endpoint.hpp"
#include "rendezvous/wire/limits.hpp"
#include "rendezvous/wire/reply.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <poll.h>
#include <unistd.h>
#include <utility>

namespace ddprun {

namespace {

using namespace std::chrono_literals;

// Pauses between retries: a starting server is ready within milliseconds; an absent one is tried
// twice a second.
constexpr Deadline::Duration kFirstPause = 10ms;
constexpr Deadline::Duration kPauseMax = 500ms;

/// Timeout of the server's confirmation that a wait is cancelled: the longest answer time of a busy
/// server.
constexpr Deadline::Duration kCancelAllowed = 5s;

/// Includes lengths and counts, so slightly less than the server's limit.
constexpr std::size_t kRequestBytesMax = wire::kRequestBytesMax;

constexpr auto kReady = static_cast<std::uint8_t>(wire::Answer::ready);
constexpr auto kCancelled = static_cast<std::uint8_t>(wire::Answer::wait_cancelled);

}  // namespace

StoreConnection StoreConnection::connect(const StoreEndpoint& endpoint, Deadline deadline) {
  StoreConnection connection(endpoint);
  auto pause = kFirstPause;
  for (int attempts = 1;; ++attempts) {
    std::string problem = connection.socket_.connect(endpoint, deadline);
    if (problem.empty()) problem = connection.greet(deadline);
    if (problem.empty()) return connection;
    connection.socket_.close();
    if (deadline.passed()) {
      throw Error(Errc::timeout,
                  "store at " + to_string(endpoint) + ": cannot connect: " + problem + " (" +
                      std::to_string(attempts) + (attempts == 1 ? " attempt) " : " attempts) ") +
                      deadline.describe());
    }
    ::poll(nullptr, 0,
           Deadline::after(std::min(pause, deadline.remaining())).remaining_poll_milliseconds());
    pause = std::min(2 * pause, kPauseMax);
  }
}

/// Sends the greeting and checks that the peer is a store. Returns the problem, or empty.
std::string StoreConnection::greet(Deadline deadline) {
  const auto nonce = static_cast<std::uint32_t>(::getpid());
  std::string greeting;
  wire::append_validate(greeting);
  wire::append_request(greeting, wire::Ping{nonce}, wire::Dialect::modern);
  char answer[sizeof nonce];
  Transfer transfer = socket_.send(greeting, deadline);
  if (transfer.is_done()) transfer = socket_.receive(answer, sizeof answer, deadline);
  if (!transfer.is_done()) return "greeting: " + transfer.describe();
  if (wire::load_integer<std::uint32_t>(answer) != nonce)
    return "the server that listens there is not a store";
  return {};
}

void StoreConnection::send(const wire::Request& request, const StoreCall& call) {
  if (!process_.is_this()) {
    process_.require("store at " + to_string(endpoint_) + ": the connection",
                     "connect a store in the forked child");
  }
  if (!socket_.is_open()) fail(Errc::closed, call, "the connection was closed by an earlier error");
  outgoing_.clear();
  wire::append_request(outgoing_, request, wire::Dialect::modern);
  if (outgoing_.size() > kRequestBytesMax) {
    throw Error(Errc::usage, "store: " + std::string(call.operation) + " of " +
                                 std::to_string(outgoing_.size()) + " bytes in one call (at most " +
                                 std::to_string(kRequestBytesMax) + ")");
  }
  check(socket_.send(outgoing_, call.deadline), call);
  if (outgoing_.capacity() > wire::kKeyBytesMax) outgoing_ = std::string();
}

std::string StoreConnection::receive_string(const StoreCall& call) {
  const auto length = receive_integer<std::uint64_t>(call);
  if (length > wire::kValueBytesMax) {
    throw_protocol_error(call, "the answer has " + std::to_string(length) + " bytes (at most " +
                                   std::to_string(wire::kValueBytesMax) + ")");
  }
  std::string bytes(static_cast<std::size_t>(length), '\0');
  receive(bytes.data(), bytes.size(), call);
  return bytes;
}

void StoreConnection::receive_end_of_wait(const StoreCall& call) {
  char answer = 0;
  const Transfer transfer = socket_.receive(&answer, 1, call.deadline);
  if (transfer.end != Transfer::End::timed_out) {
    check(transfer, call);
    if (static_cast<std::uint8_t>(answer) != kReady)
      throw_protocol_error(call, "a wait was not ended");
    return;
  }
  const StoreCall cancel{call.operation, call.key, Deadline::after(kCancelAllowed)};
  send(wire::CancelWait{}, cancel);
  // The wait may have ended while the cancellation was in transit.
  const auto first = receive_integer<std::uint8_t>(cancel);
  if (first == kReady) {
    if (receive_integer<std::uint8_t>(cancel) == kCancelled) return;
    throw_protocol_error(call, "a wait was not cancelled");
  }
  if (first != kCancelled) throw_protocol_error(call, "a wait was not cancelled");
  throw Error(Errc::timeout, "store at " + to_string(endpoint_) + ": " + call.operation + " " +
                                 std::string(call.key) + ": not there " + call.deadline.describe());
}

void StoreConnection::receive(char* bytes, std::size_t count, const StoreCall& call) {
  check(socket_.receive(bytes, count, call.deadline), call);
}

void StoreConnection::check(const Transfer& transfer, const StoreCall& call) {
  if (transfer.is_done()) return;
  fail(transfer.end == Transfer::End::timed_out ? Errc::timeout : Errc::network, call,
       transfer.describe());
}

void StoreConnection::throw_protocol_error(const StoreCall& call, const std::string& what) {
  fail(Errc::protocol, call, what);
}

void StoreConnection::fail(Errc code, const StoreCall& call, const std::string& what) {
  socket_.close();
  throw Error(code, "store at " + to_string(endpoint_) + ": " + call.operation +
                        (call.key.empty() ? "" : " " + std::string(call.key)) + ": " + what + " " +
                        call.deadline.describe());
}

}  // namespace ddprun
