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

// At a time, so that all connections go on.
constexpr std::size_t kBurstBytes = 256 << 10;
// For receivers to come and take what was sent to them before this rank left.
constexpr auto kDeliveryTimeout = std::chrono::seconds(5);
// Memory for an arriving message before any of it has come; for more, as it comes.
constexpr std::size_t kFirstRoomBytes = std::size_t{64} << 20;
// No message is larger; a length beyond is not a message's.
constexpr std::uint64_t kLetterBytesMax = std::uint64_t{1} << 46;

bool make_room(std::vector<std::byte>& place, std::size_t bytes) {
  try {
    place.resize(bytes);
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

std::string why_lost(int error) {
  const bool is_closed = error == 0 || error == ECONNRESET || error == EPIPE;
  return is_closed ? "closed its connection: it died, or failed itself"
                   : "is lost: " + std::generic_category().message(error);
}

/// Heading and bytes that are still to be moved, as far as a burst goes.
template <typename Letter>
msghdr rest_of(Letter& letter, iovec (&pieces)[2]) {
  std::size_t count = 0;
  const std::size_t done_of_heading = std::min(letter.done, sizeof letter.heading);
  if (done_of_heading < sizeof letter.heading) {
    pieces[count++] = {reinterpret_cast<std::byte*>(&letter.heading) + done_of_heading,
                       sizeof letter.heading - done_of_heading};
  }
  const std::size_t done_of_bytes = letter.done - done_of_heading;
  const std::size_t rest = std::min(letter.bytes.size() - done_of_bytes, kBurstBytes);
  if (rest > 0) pieces[count++] = {letter.bytes.data() + done_of_bytes, rest};
  msghdr message{};
  message.msg_iov = pieces;
  message.msg_iovlen = count;
  return message;
}

}  // namespace

/// Without this thread nobody would learn of anything, so whatever ends it fails the group.
void Messenger::serve() {
  try {
    carry();
    say_good_bye();
    return;
  } catch (const std::exception& error) {
    failure_.fail_own(error.what());
    mesh_.cut();
  }
  const Lock lock(mutex_);
  has_failed_ = true;  // who waits throws the same
  changed_.notify_all();
}

void Messenger::carry() {
  std::optional<Deadline> farewell;
  while (true) {
    std::vector<pollfd> polled;
    Deadline until = Deadline::never();
    {
      const Lock lock(mutex_);
      if (is_stopping_ && !farewell) farewell = Deadline::after(kDeliveryTimeout);
      if (farewell && (!has_mail() || farewell->passed())) return;
      polled = wanted();
      until = earlier(farewell.value_or(Deadline::never()), meeting_.next_timeout());
    }
    until = earlier(until, mesh_.next_look());
    if (::poll(polled.data(), polled.size(), until.remaining_poll_milliseconds()) < 0) continue;
    if (polled[0].revents != 0) failure_.check();
    {
      const Lock lock(mutex_);
      proceed(polled);
    }
    mesh_.look_at(polled);  // which may ask the store, while others send and receive
    const Lock lock(mutex_);
    notice_leavers();
    changed_.notify_all();
  }
}

void Messenger::say_good_bye() {
  const Lock lock(mutex_);
  for (const Peer& peer : peers_) {
    Heading last;
    last.magic = Heading::kLeaves;
    if (peer.socket.is_open() && peer.out.empty())
      ::send(peer.socket.fd(), &last, sizeof last, MSG_NOSIGNAL | MSG_DONTWAIT);
  }
}

void Messenger::proceed(std::span<const pollfd> ready) {
  eventfd_t count = 0;
  if (ready[1].revents != 0) ::eventfd_read(wake_fd_, &count);
  meeting_.proceed(ready);
  take_connections();
  for (Peer& peer : peers_) {
    for (const auto& one : ready) {
      if (peer.socket.is_open() && one.fd == peer.socket.fd() && one.revents != 0)
        advance(peer, one.revents);
    }
  }
}

/// What a rank that has left sent before is here, or waits at the listener, which was looked at.
void Messenger::notice_leavers() {
  for (std::size_t rank = 0; rank < peers_.size(); ++rank) {
    Peer& peer = peers_[rank];
    if (peer.is_awaited && !peer.socket.is_open() && mesh_.has_left(static_cast<int>(rank)))
      peer.has_left = true;
  }
}

bool Messenger::has_mail() const {
  for (const Peer& peer : peers_) {
    if (!peer.out.empty() && peer.loss.empty() && !peer.has_left) return true;
  }
  return false;
}

/// Alarm and wake first.
std::vector<pollfd> Messenger::wanted() {
  std::vector<pollfd> wanted = {{failure_.alarm_fd(), POLLIN, 0}, {wake_fd_, POLLIN, 0}};
  for (std::size_t rank = 0; rank < peers_.size(); ++rank) {
    Peer& peer = peers_[rank];
    if (peer.socket.is_open()) {
      const bool has_room = peer.in.size() < (peer.is_awaited ? kEarlyLettersMax : kLettersMax);
      const bool reads = has_room && peer.loss.empty() && !peer.has_left;
      const int events = (reads ? POLLIN : 0) | (peer.out.empty() ? 0 : POLLOUT);
      if (events != 0) wanted.push_back({peer.socket.fd(), static_cast<short>(events), 0});
    } else if (peer.is_wanted && !peer.is_called && static_cast<int>(rank) < options_.rank) {
      peer.is_called = true;
      meeting_.call(static_cast<int>(rank));
    }
  }
  const auto of_mesh = mesh_.watched();
  wanted.insert(wanted.end(), of_mesh.begin(), of_mesh.end());
  const auto of_meeting = meeting_.wanted();
  wanted.insert(wanted.end(), of_meeting.begin(), of_meeting.end());
  return wanted;
}

void Messenger::take_connections() {
  for (auto& [rank, socket] : meeting_.take()) {
    if (!peer(rank).socket.is_open()) peer(rank).socket = std::move(socket);
  }
  for (const auto& lost : meeting_.unreachable()) peer(lost.peer).loss = lost.why;
}

void Messenger::advance(Peer& peer, short events) {
  if ((events & POLLOUT) != 0 && !peer.out.empty()) push(peer);
  if ((events & (POLLIN | POLLHUP | POLLERR)) != 0 && peer.loss.empty()) pull(peer);
}

void Messenger::push(Peer& peer) {
  Letter& letter = peer.out.front();
  iovec pieces[2];
  const msghdr message = rest_of(letter, pieces);
  const ssize_t moved = ::sendmsg(peer.socket.fd(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (moved > 0) {
    letter.done += static_cast<std::size_t>(moved);
    if (letter.is_done()) peer.out.pop_front();
  } else if (moved < 0 && errno != EAGAIN && errno != EINTR) {
    // What has come from it before still counts; it is read until its end.
    peer.out.clear();
  }
}

void Messenger::pull(Peer& peer) {
  Letter& letter = peer.arriving;
  grow(peer);
  if (!peer.loss.empty()) return;
  iovec pieces[2];
  msghdr message = rest_of(letter, pieces);
  const ssize_t moved = ::recvmsg(peer.socket.fd(), &message, MSG_DONTWAIT);
  if (moved < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (moved <= 0) {
    if (!peer.has_left) peer.loss = why_lost(moved < 0 ? errno : 0);
    peer.socket.close();
    return;
  }
  const std::size_t before = letter.done;
  letter.done += static_cast<std::size_t>(moved);
  if (before < sizeof letter.heading && letter.done == sizeof letter.heading) begin_arriving(peer);
  if (!letter.is_done() || peer.has_left || !peer.loss.empty()) return;
  peer.in.push_back(std::exchange(letter, {}));
}

/// The heading is there.
void Messenger::begin_arriving(Peer& peer) {
  const Heading& heading = peer.arriving.heading;
  if (heading.magic == Heading::kLeaves) {
    peer.has_left = true;
    return;
  }
  const bool is_letter = heading.magic == Heading::kMagic &&
                         heading.type <= static_cast<std::uint64_t>(DataType::uint8) &&
                         heading.elements <= kLetterBytesMax / 8;
  if (is_letter) {
    peer.arriving.announced = heading.elements * size_of(static_cast<DataType>(heading.type));
    return;
  }
  peer.loss = "sends what is no message";
  peer.socket.close();
}

/// Makes room for more of the arriving message if all that there is has been filled.
void Messenger::grow(Peer& peer) {
  Letter& letter = peer.arriving;
  if (letter.done != sizeof letter.heading + letter.bytes.size()) return;
  const std::size_t next =
      std::min(letter.announced, std::max(kFirstRoomBytes, 2 * letter.bytes.size()));
  if (next == letter.bytes.size() || make_room(letter.bytes, next)) return;
  peer.loss = "sends a message for which there is no memory: " + std::to_string(letter.announced) +
              " bytes";
  peer.socket.close();
}

}  // namespace ddprun::tcp
