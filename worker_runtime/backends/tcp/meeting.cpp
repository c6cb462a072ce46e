#include "worker_runtime/backends/tcp/meeting.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <sys/socket.h>
#include <utility>

namespace ddprun::tcp {

namespace {

// Who calls and does not say who he is holds one of kStrangersMax places for so long.
constexpr auto kHelloTimeout = std::chrono::seconds(2);

/// Receives more of `hello`; false if the connection is of no use.
bool receive_more(int fd, Hello& hello, std::size_t& received) {
  auto* const bytes = reinterpret_cast<char*>(&hello);
  while (received < sizeof hello) {
    const ssize_t got = ::recv(fd, bytes + received, sizeof hello - received, MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return errno == EAGAIN;
    if (got == 0) return false;
    received += static_cast<std::size_t>(got);
  }
  return true;
}

/// So few bytes always fit a new connection.
bool send_hello(int fd, const Hello& hello) {
  return ::send(fd, &hello, sizeof hello, MSG_NOSIGNAL | MSG_DONTWAIT) == ssize_t{sizeof hello};
}

}  // namespace

Deadline earlier(Deadline a, Deadline b) {
  return a.time() < b.time() ? a : b;
}

PeerMeeting::PeerMeeting(int rank, std::string token, const std::vector<PeerAddress>& peers,
                         int listener)
    : rank_(rank), token_(std::move(token)), peers_(peers), listener_(listener) {}

void PeerMeeting::call(int peer) {
  Outgoing& call = calls_.emplace_back();
  call.peer = peer;
  try_address(call);
}

void PeerMeeting::try_address(Outgoing& call) {
  const PeerAddress& peer = peers_[static_cast<std::size_t>(call.peer)];
  call.is_connected = false;
  call.received = 0;
  if (call.address >= peer.addresses.size()) {
    call.socket.close();
    unreachable_.push_back(
        {call.peer, "cannot be reached at " + to_string(peer) + ": " + call.problems});
    return;
  }
  Dialled dialled = dial(peer.addresses[call.address], peer.port);
  call.socket = std::move(dialled.socket);
  if (dialled.error != 0) give_up_address(call, std::strerror(dialled.error));
}

void PeerMeeting::give_up_address(Outgoing& call, const std::string& why) {
  call.problems += (call.problems.empty() ? "" : "; ") + why;
  ++call.address;
  try_address(call);
}

std::vector<pollfd> PeerMeeting::wanted() const {
  std::vector<pollfd> wanted;
  for (const auto& call : calls_) {
    const short events = call.is_connected ? POLLIN : POLLOUT;
    wanted.push_back({call.socket.fd(), events, 0});
  }
  for (const auto& stranger : strangers_) wanted.push_back({stranger.socket.fd(), POLLIN, 0});
  if (strangers_.size() < kStrangersMax) wanted.push_back({listener_, POLLIN, 0});
  return wanted;
}

Deadline PeerMeeting::next_timeout() const {
  auto next = Deadline::never();
  for (const auto& stranger : strangers_) next = earlier(next, stranger.deadline);
  return next;
}

void PeerMeeting::proceed(std::span<const pollfd> ready) {
  const auto is_ready = [&](int fd) {
    return std::any_of(ready.begin(), ready.end(),
                       [&](const pollfd& one) { return one.fd == fd && one.revents != 0; });
  };
  const bool has_callers = is_ready(listener_);
  std::erase_if(calls_, [&](Outgoing& call) {
    return !call.socket.is_open() || (is_ready(call.socket.fd()) && advance(call));
  });
  std::erase_if(strangers_, [&](Stranger& stranger) {
    if (is_ready(stranger.socket.fd())) return advance(stranger);
    return stranger.deadline.passed();
  });
  if (has_callers) accept_strangers();
}

/// True if the call is over.
bool PeerMeeting::advance(Outgoing& call) {
  const int fd = call.socket.fd();
  if (!call.is_connected) {
    const int error = dial_error(fd);
    if (error != 0) {
      give_up_address(call, std::strerror(error));
      return !call.socket.is_open();
    }
    call.is_connected = true;
    if (send_hello(fd, make_hello(token_, rank_, call.peer))) return false;
  } else if (receive_more(fd, call.answer, call.received)) {
    if (call.received < sizeof call.answer) return false;
    if (is_hello(call.answer, token_, call.peer, rank_)) {
      done_.emplace_back(call.peer, std::move(call.socket));
      return true;
    }
  }
  give_up_address(call, "who listens there is not of this group");
  return !call.socket.is_open();
}

/// True if nothing is left to be done for it.
bool PeerMeeting::advance(Stranger& stranger) {
  const int fd = stranger.socket.fd();
  if (!receive_more(fd, stranger.hello, stranger.received)) return true;
  if (stranger.received < sizeof stranger.hello) return false;
  const int from = stranger.hello.from;
  const bool is_peer = from > rank_ && from < static_cast<int>(peers_.size()) &&
                       is_hello(stranger.hello, token_, from, rank_);
  if (is_peer && send_hello(fd, make_hello(token_, rank_, from)))
    done_.emplace_back(from, std::move(stranger.socket));
  return true;
}

void PeerMeeting::accept_strangers() {
  while (strangers_.size() < kStrangersMax) {
    Socket socket = accept_from(listener_);
    if (!socket.is_open()) return;
    strangers_.push_back({.socket = std::move(socket),
                          .deadline = Deadline::after(kHelloTimeout),
                          .hello = {},
                          .received = 0});
    // It has usually spoken by now.
    if (advance(strangers_.back())) strangers_.pop_back();
  }
}

}  // namespace ddprun::tcp
