#include "worker_runtime/backends/host/tcp/messenger.hpp"
#include <ddprun/error.hpp>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <exception>
#include <new>
#include <optional>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <system_error>
#include <utility>

namespace ddprun::tcp {

namespace {

// Maximum transfer at a time, so that all connections make progress.
constexpr std::size_t kMessageBurstBytes = 256 << 10;
// Time after leave() in which receivers may accept pending messages.
constexpr auto kDeliveryTimeout = std::chrono::seconds(5);
// Initial buffer of an incoming message; it grows while the message arrives.
constexpr std::size_t kFirstRoomBytes = std::size_t{64} << 20;
// Larger sizes are invalid.
constexpr std::uint64_t kMessageBytesMax = std::uint64_t{1} << 46;

bool resize(std::vector<std::byte>& place, std::size_t bytes) {
  try {
    place.resize(bytes);
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

std::string loss_reason_of(int error) {
  const bool is_closed = error == 0 || error == ECONNRESET || error == EPIPE;
  return is_closed ? "closed its connection: it died, or failed itself"
                   : "is lost: " + std::generic_category().message(error);
}

/// Remaining part of header and content, at most kMessageBurstBytes of the content.
template <typename Message>
msghdr rest_of(Message& message, iovec (&pieces)[2]) {
  std::size_t count = 0;
  const std::size_t done_of_header = std::min(message.done, sizeof message.header);
  if (done_of_header < sizeof message.header) {
    pieces[count++] = {reinterpret_cast<std::byte*>(&message.header) + done_of_header,
                       sizeof message.header - done_of_header};
  }
  const std::size_t done_of_bytes = message.done - done_of_header;
  const std::size_t burst = std::min(message.bytes.size() - done_of_bytes, kMessageBurstBytes);
  if (burst > 0) pieces[count++] = {message.bytes.data() + done_of_bytes, burst};
  msghdr rest{};
  rest.msg_iov = pieces;
  rest.msg_iovlen = count;
  return rest;
}

}  // namespace

/// Only this thread detects failures, so an exception here fails the group.
void Messenger::serve() {
  try {
    transfer();
    send_leave_notices();
    return;
  } catch (const std::exception& error) {
    failure_.fail_own(error.what());
    mesh_.cut();
  }
  const Lock lock(mutex_);
  has_failed_ = true;  // waiting calls throw the same failure
  changed_.notify_all();
}

void Messenger::transfer() {
  std::optional<Deadline> delivery_deadline;
  auto silence_check = Deadline::after(kSilenceCheckInterval);
  while (true) {
    std::vector<pollfd> polled;
    Deadline until = Deadline::never();
    {
      const Lock lock(mutex_);
      if (is_stopping_ && !delivery_deadline) delivery_deadline = Deadline::after(kDeliveryTimeout);
      if (delivery_deadline && (!has_pending_messages() || delivery_deadline->passed())) return;
      polled = wanted();
      until = earlier(delivery_deadline.value_or(Deadline::never()), meeting_.next_timeout());
    }
    until = earlier(until, earlier(mesh_.next_check(), silence_check));
    if (::poll(polled.data(), polled.size(), until.remaining_poll_milliseconds()) < 0) continue;
    if (polled[0].revents != 0) failure_.check();
    {
      const Lock lock(mutex_);
      proceed(polled);
    }
    mesh_.process(polled);  // without the lock: it may query the store
    const bool checks_silence = silence_check.passed();
    if (checks_silence) mesh_.check_silence();
    const Lock lock(mutex_);
    mark_left_peers();
    if (checks_silence) check_silence();
    if (checks_silence) silence_check = Deadline::after(kSilenceCheckInterval);
    changed_.notify_all();
  }
}

void Messenger::send_leave_notices() {
  const Lock lock(mutex_);
  for (const Peer& peer : peers_) {
    MessageHeader last;
    last.magic = MessageHeader::kLeaves;
    if (peer.socket.is_open() && peer.out.empty())
      ::send(peer.socket.fd(), &last, sizeof last, MSG_NOSIGNAL | MSG_DONTWAIT);
  }
}

void Messenger::proceed(std::span<const pollfd> ready) {
  eventfd_t count = 0;
  if (ready[1].revents != 0) ::eventfd_read(wake_fd_, &count);
  meeting_.proceed(ready);
  adopt_connections();
  for (Peer& peer : peers_) {
    for (const auto& one : ready) {
      if (peer.socket.is_open() && one.fd == peer.socket.fd() && one.revents != 0)
        advance(peer, one.revents);
    }
  }
}

/// Earlier messages of a rank that has left have been read, or wait at the listener, which has been
/// checked.
void Messenger::mark_left_peers() {
  for (std::size_t rank = 0; rank < peers_.size(); ++rank) {
    Peer& peer = peers_[rank];
    if (peer.is_awaited && !peer.socket.is_open() && mesh_.has_left(static_cast<int>(rank)))
      peer.has_left = true;
  }
}

void Messenger::check_silence() {
  for (Peer& peer : peers_) {
    if (!peer.socket.is_open()) continue;
    const auto state = acknowledgements(peer.socket.fd());
    if (!state || !peer.silence.is_too_long(*state, Silence::Clock::now())) continue;
    peer.loss_reason = loss_reason_of(ETIMEDOUT);
    peer.socket.close();
  }
}

bool Messenger::has_pending_messages() const {
  for (const Peer& peer : peers_) {
    if (!peer.out.empty() && peer.loss_reason.empty() && !peer.has_left) return true;
  }
  return false;
}

/// The alarm and the wake descriptor come first.
std::vector<pollfd> Messenger::wanted() {
  std::vector<pollfd> wanted = {{failure_.alarm_fd(), POLLIN, 0}, {wake_fd_, POLLIN, 0}};
  for (std::size_t rank = 0; rank < peers_.size(); ++rank) {
    Peer& peer = peers_[rank];
    if (peer.socket.is_open()) {
      const bool has_room =
          peer.in.size() < (peer.is_awaited ? kEarlyMessagesMax : kQueuedMessagesMax);
      const bool reads = has_room && peer.loss_reason.empty() && !peer.has_left;
      const int events = (reads ? POLLIN : 0) | (peer.out.empty() ? 0 : POLLOUT);
      if (events != 0) wanted.push_back({peer.socket.fd(), static_cast<short>(events), 0});
    } else if (peer.is_wanted && !peer.is_connecting && static_cast<int>(rank) < options_.rank) {
      peer.is_connecting = true;
      meeting_.call(static_cast<int>(rank));
    }
  }
  const auto of_mesh = mesh_.watched();
  wanted.insert(wanted.end(), of_mesh.begin(), of_mesh.end());
  const auto of_meeting = meeting_.wanted();
  wanted.insert(wanted.end(), of_meeting.begin(), of_meeting.end());
  return wanted;
}

void Messenger::adopt_connections() {
  for (auto& [rank, socket] : meeting_.take()) {
    if (peer(rank).socket.is_open()) continue;
    remove_time_limit(socket.fd());
    peer(rank).socket = std::move(socket);
  }
  for (const auto& lost : meeting_.unreachable()) peer(lost.peer).loss_reason = lost.why;
}

void Messenger::advance(Peer& peer, short events) {
  if ((events & POLLOUT) != 0 && !peer.out.empty()) push(peer);
  if ((events & (POLLIN | POLLHUP | POLLERR)) != 0 && peer.loss_reason.empty()) pull(peer);
}

void Messenger::push(Peer& peer) {
  Message& message = peer.out.front();
  iovec pieces[2];
  const msghdr rest = rest_of(message, pieces);
  const ssize_t moved = ::sendmsg(peer.socket.fd(), &rest, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (moved > 0) {
    message.done += static_cast<std::size_t>(moved);
    if (message.is_done()) peer.out.pop_front();
  } else if (moved < 0 && errno != EAGAIN && errno != EINTR) {
    // Messages received before remain valid: reading continues until the end of the stream.
    peer.out.clear();
  }
}

void Messenger::pull(Peer& peer) {
  Message& message = peer.incoming;
  grow_buffer(peer);
  if (!peer.loss_reason.empty()) return;
  iovec pieces[2];
  msghdr rest = rest_of(message, pieces);
  const ssize_t moved = ::recvmsg(peer.socket.fd(), &rest, MSG_DONTWAIT);
  if (moved < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (moved <= 0) {
    if (!peer.has_left) peer.loss_reason = loss_reason_of(moved < 0 ? errno : 0);
    peer.socket.close();
    return;
  }
  const std::size_t before = message.done;
  message.done += static_cast<std::size_t>(moved);
  if (before < sizeof message.header && message.done == sizeof message.header) on_header(peer);
  if (!message.is_done() || peer.has_left || !peer.loss_reason.empty()) return;
  peer.in.push_back(std::exchange(message, {}));
}

/// The header of an incoming message is complete.
void Messenger::on_header(Peer& peer) {
  const MessageHeader& header = peer.incoming.header;
  if (header.magic == MessageHeader::kLeaves) {
    peer.has_left = true;
    return;
  }
  const bool is_valid = header.magic == MessageHeader::kMagic &&
                        header.type <= static_cast<std::uint64_t>(DataType::uint8) &&
                        header.elements <= kMessageBytesMax / 8;
  if (is_valid) {
    peer.incoming.expected_bytes = header.elements * size_of(static_cast<DataType>(header.type));
    return;
  }
  peer.loss_reason = "sent an invalid message header";
  peer.socket.close();
}

/// Enlarges the buffer of the incoming message if it is full.
void Messenger::grow_buffer(Peer& peer) {
  Message& message = peer.incoming;
  if (message.done != sizeof message.header + message.bytes.size()) return;
  const std::size_t next =
      std::min(message.expected_bytes, std::max(kFirstRoomBytes, 2 * message.bytes.size()));
  if (next == message.bytes.size() || resize(message.bytes, next)) return;
  peer.loss_reason =
      "sent a message that does not fit into memory: " + std::to_string(message.expected_bytes) +
      " bytes";
  peer.socket.close();
}

}  // namespace ddprun::tcp
