#include "worker_runtime/backends/host/tcp/meeting.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <sys/socket.h>
#include <utility>

namespace ddprun::tcp {

namespace {

/// For a caller to prove itself, which a rank does at once.
constexpr auto kHelloTimeout = std::chrono::seconds(2);

/// For a caller to say hello if others wait for its place: enough for a packet that is sent again.
constexpr auto kSilenceTimeout = std::chrono::milliseconds(500);

/// Calls of an address whose listener closes the connection before it answers: a rank does so with
/// one that says hello late while many others call.
constexpr int kUnansweredMax = 20;
constexpr auto kPauseBetweenCalls = std::chrono::milliseconds(100);

/// Receives more of `message`; false if the connection is of no use.
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

/// So few bytes always fit a new connection.
template <typename Message>
bool send_all(int fd, const Message& message) {
  return ::send(fd, &message, sizeof message, MSG_NOSIGNAL | MSG_DONTWAIT) ==
         ssize_t{sizeof message};
}

template <typename Stranger>
bool is_silent(const Stranger& stranger) {
  return stranger.hello_bytes < sizeof stranger.hello;
}

template <typename Stranger>
bool gives_way(const Stranger& stranger) {
  return is_silent(stranger) && stranger.patience.passed();
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

/// False if the listener has closed too many connections.
bool PeerMeeting::call_again(Outgoing& call) {
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
  for (const auto& stranger : strangers_) wanted.push_back({stranger.socket.fd(), POLLIN, 0});
  if (has_room()) wanted.push_back({listener_, POLLIN, 0});
  return wanted;
}

Deadline PeerMeeting::next_timeout() const {
  auto next = Deadline::never();
  for (const auto& call : calls_) {
    if (call.next_attempt) next = earlier(next, *call.next_attempt);
  }
  const bool is_full = strangers_.size() == kStrangersMax;
  for (const auto& stranger : strangers_) {
    next = earlier(next, stranger.deadline);
    if (is_full && is_silent(stranger)) next = earlier(next, stranger.patience);
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
  if (call.received == 0 && call_again(call)) return false;
  give_up_address(call, "the listener there is not of this group");
  return !call.socket.is_open();
}

/// True if nothing is left to be done for it.
bool PeerMeeting::advance(Stranger& stranger) {
  const int fd = stranger.socket.fd();
  if (stranger.hello_bytes < sizeof stranger.hello) {
    if (!receive_more(fd, stranger.hello, stranger.hello_bytes)) return true;
    if (stranger.hello_bytes < sizeof stranger.hello) return false;
    if (!answer(stranger)) return true;
  }
  if (!receive_more(fd, stranger.proof, stranger.proof_bytes)) return true;
  if (stranger.proof_bytes < sizeof stranger.proof) return false;
  if (are_equal(stranger.proof, prove(Side::caller, key_, stranger.hello, stranger.answer)))
    done_.emplace_back(stranger.hello.from, std::move(stranger.socket));
  return true;
}

/// False if the caller cannot be a rank that calls this one.
bool PeerMeeting::answer(Stranger& stranger) {
  const int from = stranger.hello.from;
  const bool may_call = from > rank_ && from < static_cast<int>(peers_.size()) &&
                        is_hello(stranger.hello, from, rank_);
  if (!may_call) return false;
  stranger.answer = make_hello(rank_, from);
  const Answer answer{.hello = stranger.answer,
                      .proof = prove(Side::listener, key_, stranger.hello, stranger.answer)};
  return send_all(stranger.socket.fd(), answer);
}

bool PeerMeeting::has_room() const {
  return strangers_.size() < kStrangersMax ||
         std::any_of(strangers_.begin(), strangers_.end(), gives_way<Stranger>);
}

/// A rank that has said hello is half way through and keeps its place.
bool PeerMeeting::drop_silent() {
  const auto silent = std::find_if(strangers_.begin(), strangers_.end(), gives_way<Stranger>);
  if (silent == strangers_.end()) return false;
  strangers_.erase(silent);
  return true;
}

void PeerMeeting::accept_strangers() {
  for (std::size_t i = 0; i < kStrangersMax; ++i) {
    if (strangers_.size() == kStrangersMax && !drop_silent()) return;
    Socket socket = accept_from(listener_);
    if (!socket.is_open()) return;
    strangers_.push_back({.socket = std::move(socket),
                          .deadline = Deadline::after(kHelloTimeout),
                          .patience = Deadline::after(kSilenceTimeout)});
    // It has usually spoken by now.
    if (advance(strangers_.back())) strangers_.pop_back();
  }
}

}  // namespace ddprun::tcp
