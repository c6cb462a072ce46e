#include "worker_runtime/backends/host/tcp/meeting.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <sys/socket.h>
#include <utility>

namespace ddprun::tcp {

namespace {

/// Time limit of the authentication, which a rank performs immediately.
constexpr auto kHelloTimeout = std::chrono::seconds(2);

/// Time limit of the hello while the limit of connections is reached: enough for one
/// retransmission.
constexpr auto kSilenceTimeout = std::chrono::milliseconds(500);

/// Maximum number of connections to an address that the listener closes before it answers. A rank
/// does so if the hello is late while many others connect.
constexpr int kUnansweredMax = 20;
constexpr auto kPauseBetweenCalls = std::chrono::milliseconds(100);

/// Receives more of `message`; returns false if the connection has failed.
template <typename Message>
bool receive_more(int fd, Message& message, std::size_t& received) {
  auto* const bytes = reinterpret_cast<char*>(&message);
  while (received < sizeof message) {
    const ssize_t got = ::recv(fd, bytes + received, sizeof message - received, MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return errno == EAGAIN;
    if (got == 0) return false;
    received += static_cast<std::size_t>(got);
  }
  return true;
}

/// A few bytes always fit into the buffer of a new connection.
template <typename Message>
bool send_all(int fd, const Message& message) {
  return ::send(fd, &message, sizeof message, MSG_NOSIGNAL | MSG_DONTWAIT) ==
         ssize_t{sizeof message};
}

template <typename UnauthenticatedPeer>
bool is_silent(const UnauthenticatedPeer& peer) {
  return peer.hello_bytes < sizeof peer.hello;
}

template <typename UnauthenticatedPeer>
bool gives_way(const UnauthenticatedPeer& peer) {
  return is_silent(peer) && peer.hello_deadline.passed();
}

}  // namespace

Deadline earlier(Deadline a, Deadline b) {
  return a.time() < b.time() ? a : b;
}

PeerMeeting::PeerMeeting(int rank, const Digest& key, const std::vector<PeerAddress>& peers,
                         int listener)
    : rank_(rank), key_(key), peers_(peers), listener_(listener) {}

void PeerMeeting::call(int peer) {
  Outgoing& call = calls_.emplace_back();
  call.peer = peer;
  try_address(call);
}

void PeerMeeting::try_address(Outgoing& call) {
  const PeerAddress& peer = peers_[static_cast<std::size_t>(call.peer)];
  call.is_connected = false;
  call.received = 0;
  call.next_attempt.reset();
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
  call.unanswered = 0;
  try_address(call);
}

/// Returns false if the listener has closed too many connections.
bool PeerMeeting::retry(Outgoing& call) {
  if (++call.unanswered > kUnansweredMax) return false;
  call.socket.close();
  call.next_attempt = Deadline::after(kPauseBetweenCalls);
  return true;
}

std::vector<pollfd> PeerMeeting::wanted() const {
  std::vector<pollfd> wanted;
  for (const auto& call : calls_) {
    if (call.next_attempt) continue;
    const short events = call.is_connected ? POLLIN : POLLOUT;
    wanted.push_back({call.socket.fd(), events, 0});
  }
  for (const auto& peer : unauthenticated_) wanted.push_back({peer.socket.fd(), POLLIN, 0});
  if (has_room()) wanted.push_back({listener_, POLLIN, 0});
  return wanted;
}

Deadline PeerMeeting::next_timeout() const {
  auto next = Deadline::never();
  for (const auto& call : calls_) {
    if (call.next_attempt) next = earlier(next, *call.next_attempt);
  }
  const bool is_full = unauthenticated_.size() == kUnauthenticatedMax;
  for (const auto& peer : unauthenticated_) {
    next = earlier(next, peer.deadline);
    if (is_full && is_silent(peer)) next = earlier(next, peer.hello_deadline);
  }
  return next;
}

void PeerMeeting::proceed(std::span<const pollfd> ready) {
  const auto is_ready = [&](int fd) {
    return std::any_of(ready.begin(), ready.end(),
                       [&](const pollfd& one) { return one.fd == fd && one.revents != 0; });
  };
  const bool has_callers = is_ready(listener_);
  std::erase_if(calls_, [&](Outgoing& call) {
    if (call.next_attempt) {
      if (!call.next_attempt->passed()) return false;
      try_address(call);
      return !call.socket.is_open();
    }
    return !call.socket.is_open() || (is_ready(call.socket.fd()) && advance(call));
  });
  std::erase_if(unauthenticated_, [&](UnauthenticatedPeer& peer) {
    if (is_ready(peer.socket.fd())) return advance(peer);
    return peer.deadline.passed();
  });
  if (has_callers) accept_peers();
}

/// Returns true if the connection is established or has failed.
bool PeerMeeting::advance(Outgoing& call) {
  const int fd = call.socket.fd();
  if (!call.is_connected) {
    const int error = dial_error(fd);
    if (error != 0) {
      give_up_address(call, std::strerror(error));
      return !call.socket.is_open();
    }
    call.is_connected = true;
    call.hello = make_hello(rank_, call.peer);
    if (send_all(fd, call.hello)) return false;
  } else if (receive_more(fd, call.answer, call.received)) {
    if (call.received < sizeof call.answer) return false;
    const Hello& answer = call.answer.hello;
    if (is_hello(answer, call.peer, rank_) &&
        are_equal(call.answer.proof, prove(Side::listener, key_, call.hello, answer)) &&
        send_all(fd, prove(Side::caller, key_, call.hello, answer))) {
      done_.emplace_back(call.peer, std::move(call.socket));
      return true;
    }
  }
  if (call.received == 0 && retry(call)) return false;
  give_up_address(call, "the listener is not of this group");
  return !call.socket.is_open();
}

/// Returns true if the connection is established or has failed.
bool PeerMeeting::advance(UnauthenticatedPeer& peer) {
  const int fd = peer.socket.fd();
  if (peer.hello_bytes < sizeof peer.hello) {
    if (!receive_more(fd, peer.hello, peer.hello_bytes)) return true;
    if (peer.hello_bytes < sizeof peer.hello) return false;
    if (!answer(peer)) return true;
  }
  if (!receive_more(fd, peer.proof, peer.proof_bytes)) return true;
  if (peer.proof_bytes < sizeof peer.proof) return false;
  if (are_equal(peer.proof, prove(Side::caller, key_, peer.hello, peer.answer)))
    done_.emplace_back(peer.hello.from, std::move(peer.socket));
  return true;
}

/// Returns false if the hello is not that of a rank that connects to this one.
bool PeerMeeting::answer(UnauthenticatedPeer& peer) {
  const int from = peer.hello.from;
  const bool may_call =
      from > rank_ && from < static_cast<int>(peers_.size()) && is_hello(peer.hello, from, rank_);
  if (!may_call) return false;
  peer.answer = make_hello(rank_, from);
  const Answer answer{.hello = peer.answer,
                      .proof = prove(Side::listener, key_, peer.hello, peer.answer)};
  return send_all(peer.socket.fd(), answer);
}

bool PeerMeeting::has_room() const {
  return unauthenticated_.size() < kUnauthenticatedMax ||
         std::any_of(unauthenticated_.begin(), unauthenticated_.end(),
                     gives_way<UnauthenticatedPeer>);
}

/// Keeps connections with a valid hello.
bool PeerMeeting::drop_one_without_hello() {
  const auto silent = std::find_if(unauthenticated_.begin(), unauthenticated_.end(),
                                   gives_way<UnauthenticatedPeer>);
  if (silent == unauthenticated_.end()) return false;
  unauthenticated_.erase(silent);
  return true;
}

void PeerMeeting::accept_peers() {
  for (std::size_t i = 0; i < kUnauthenticatedMax; ++i) {
    if (unauthenticated_.size() == kUnauthenticatedMax && !drop_one_without_hello()) return;
    Socket socket = accept_from(listener_);
    if (!socket.is_open()) return;
    unauthenticated_.push_back({.socket = std::move(socket),
                                .deadline = Deadline::after(kHelloTimeout),
                                .hello_deadline = Deadline::after(kSilenceTimeout)});
    // The hello has usually arrived.
    if (advance(unauthenticated_.back())) unauthenticated_.pop_back();
  }
}

}  // namespace ddprun::tcp
