#include "worker_runtime/backends/host/tcp/mesh.hpp"

#include "worker_runtime/backends/host/tcp/frame.hpp"
#include <ddprun/error.hpp>

#include <cerrno>
#include <chrono>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <system_error>
#include <utility>

namespace ddprun::tcp {

using shared_memory::FailureKind;

namespace {

// Interval of store checks while a closed connection has unread data.
constexpr auto kStoreCheckInterval = std::chrono::seconds(1);
// Time for peers to read the data before the leave frame.
constexpr auto kLeaveTimeout = std::chrono::seconds(5);

/// Returns false if the deadline passes or the peer has closed the connection.
bool send_whole(int fd, const void* data, std::size_t bytes, Deadline deadline) {
  const auto* rest = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t sent = ::send(fd, rest, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0) {
      rest += sent;
      bytes -= static_cast<std::size_t>(sent);
      continue;
    }
    if (errno != EAGAIN && errno != EINTR) return false;
    pollfd room{fd, POLLOUT, 0};
    if (::poll(&room, 1, deadline.remaining_poll_milliseconds()) == 0) return false;
  }
  return true;
}

}  // namespace

Mesh::Mesh(MeshOptions options, Socket listener, FirstFailure& failure)
    : options_(std::move(options)),
      listener_(std::move(listener)),
      failure_(failure),
      meeting_(options_.rank, options_.key, options_.peers, listener_.fd()),
      connections_(options_.peers.size()),
      silences_(options_.peers.size()),
      is_closing_(options_.peers.size()),
      has_left_(options_.peers.size()),
      wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!wake_.is_open()) throw_system_error("process group: eventfd", errno);
}

std::vector<int> Mesh::connect(const std::vector<int>& peers, Deadline deadline) {
  std::vector<int> missing;
  for (const int peer : peers) {
    if (!connections_[index(peer)].is_open()) missing.push_back(peer);
  }
  if (missing.empty()) return {};
  for (const int peer : missing) {
    if (peer < options_.rank) meeting_.call(peer);
  }
  while (true) {
    for (auto& [peer, socket] : meeting_.take()) {
      const bool is_known = connections_[index(peer)].is_open();
      if (!is_known) keep(peer, std::move(socket));
    }
    if (const auto& lost = meeting_.unreachable(); !lost.empty())
      lose(lost.front().peer, lost.front().why);
    std::erase_if(missing, [&](int peer) { return connections_[index(peer)].is_open(); });
    set_awaited(missing);
    if (missing.empty()) return {};
    std::vector<pollfd> wanted = meeting_.wanted();
    const bool is_ready = wait(wanted, earlier(meeting_.next_timeout(), deadline));
    if (!is_ready && deadline.passed()) return missing;
    meeting_.proceed(wanted);
  }
}

void Mesh::keep(int peer, Socket socket) {
  remove_time_limit(socket.fd());
  {
    const std::lock_guard lock(mutex_);
    connections_[index(peer)] = std::move(socket);
  }
  ::eventfd_write(wake_.fd(), 1);
}

bool Mesh::wait(std::vector<pollfd>& wanted, Deadline deadline) {
  const std::size_t count = wanted.size();
  wanted.push_back({failure_.alarm_fd(), POLLIN, 0});
  int ready = 0;
  do {
    ready = ::poll(wanted.data(), wanted.size(), deadline.remaining_poll_milliseconds());
    if (ready < 0 && errno != EINTR) throw_system_error("process group: poll", errno);
  } while (ready < 0 || (ready == 0 && !deadline.passed()));
  if (wanted[count].revents != 0) failure_.check();
  wanted.resize(count);
  return ready > 0;
}

std::vector<pollfd> Mesh::watched() {
  const std::lock_guard lock(mutex_);
  std::vector<pollfd> watched = {{wake_.fd(), POLLIN, 0}};
  for (std::size_t peer = 0; peer < connections_.size(); ++peer) {
    if (connections_[peer].is_open() && !is_closing_[peer] && !has_left_[peer])
      watched.push_back({connections_[peer].fd(), POLLRDHUP, 0});
  }
  return watched;
}

void Mesh::process(std::span<const pollfd> ready) {
  for (const pollfd& one : ready) {
    if (one.revents == 0) continue;
    if (one.fd == wake_.fd()) {
      eventfd_t count = 0;
      ::eventfd_read(wake_.fd(), &count);
    } else if (const int peer = peer_at(one.fd); peer >= 0) {
      examine(peer, one.fd);
    }
  }
  if (any_is_closing_) examine_closing();
}

Deadline Mesh::next_check() {
  return any_is_closing_ ? Deadline::after(kStoreCheckInterval) : Deadline::never();
}

void Mesh::check_silence() {
  std::unique_lock lock(mutex_);
  for (std::size_t peer = 0; peer < connections_.size(); ++peer) {
    if (!connections_[peer].is_open() || has_left_[peer]) continue;
    const auto state = acknowledgements(connections_[peer].fd());
    if (!state || !silences_[peer].is_too_long(*state, Silence::Clock::now())) continue;
    lock.unlock();
    lose(static_cast<int>(peer), ETIMEDOUT);
  }
}

/// Returns -1 if `fd` is not a connection to a rank.
int Mesh::peer_at(int fd) {
  const std::lock_guard lock(mutex_);
  for (std::size_t peer = 0; peer < connections_.size(); ++peer) {
    if (connections_[peer].fd() == fd) return static_cast<int>(peer);
  }
  return -1;
}

void Mesh::on_read() noexcept {
  if (any_is_closing_) ::eventfd_write(wake_.fd(), 1);
}

/// Data may have been read, and a failure published, since the last check.
void Mesh::examine_closing() {
  std::vector<std::pair<int, int>> closing;
  {
    const std::lock_guard lock(mutex_);
    for (std::size_t peer = 0; peer < connections_.size(); ++peer) {
      if (is_closing_[peer] && !has_left_[peer])
        closing.emplace_back(static_cast<int>(peer), connections_[peer].fd());
    }
  }
  any_is_closing_ = !closing.empty();
  for (const auto& [peer, fd] : closing) examine(peer, fd);
  if (!closing.empty()) failure_.check_store();
}

/// The peer has closed the connection. If unread data is left, either its last frame is a leave
/// frame, or the peer has failed, and the store has the failure. The thread that would read the
/// data may be waiting for the failed rank.
void Mesh::examine(int peer, int fd) {
  any_is_closing_ = true;  // before the peek, so that a concurrent read wakes this thread again
  std::unique_lock lock(mutex_);
  if (has_left_[index(peer)]) return;
  Frame frame;
  const ssize_t got = ::recv(fd, &frame, sizeof frame, MSG_PEEK | MSG_DONTWAIT);
  const int error = got < 0 ? errno : 0;
  if (error == EAGAIN || error == EINTR) return;
  if (got <= 0) {
    lock.unlock();
    lose(peer, error);
  }
  is_closing_[index(peer)] = true;
  has_left_[index(peer)] = got == ssize_t{sizeof frame} && frame.kind == FrameKind::leave;
}

bool Mesh::has_left(int peer) {
  const std::lock_guard lock(mutex_);
  return has_left_[index(peer)];
}

void Mesh::lose(int peer, int error) {
  const bool is_closed = error == 0 || error == ECONNRESET || error == EPIPE;
  lose(peer, is_closed ? "closed its connection: it died, or failed itself"
                       : "is lost: " + std::generic_category().message(error));
}

void Mesh::lose(int peer, const std::string& why) {
  failure_.fail(FailureKind::died, peer, failure_.names().name(peer) + " " + why);
}

void Mesh::set_awaited(std::vector<int> peers) {
  const std::lock_guard lock(mutex_);
  awaited_ = std::move(peers);
}

std::vector<int> Mesh::awaited() const {
  const std::lock_guard lock(mutex_);
  return awaited_;
}

void Mesh::leave() noexcept {
  const std::lock_guard lock(mutex_);
  const auto deadline = Deadline::after(kLeaveTimeout);
  Frame frame;
  frame.kind = FrameKind::leave;
  for (auto& connection : connections_) {
    if (!connection.is_open()) continue;
    send_whole(connection.fd(), &frame, sizeof frame, deadline);
    connection.close();
  }
  listener_.close();
}

void Mesh::cut() noexcept {
  const std::lock_guard lock(mutex_);
  for (const auto& connection : connections_) {
    if (connection.is_open()) ::shutdown(connection.fd(), SHUT_RDWR);
  }
}

}  // namespace ddprun::tcp
