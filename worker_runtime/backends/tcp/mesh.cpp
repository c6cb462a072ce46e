#include "worker_runtime/backends/tcp/mesh.hpp"

#include "worker_runtime/backends/tcp/frame.hpp"
#include <ddprun/error.hpp>

#include <cerrno>
#include <chrono>
#include <sys/socket.h>
#include <system_error>
#include <utility>

namespace ddprun::tcp {

using shared_memory::FailureKind;

Mesh::Mesh(MeshOptions options, Socket listener, FirstFailure& failure)
    : options_(std::move(options)),
      listener_(std::move(listener)),
      failure_(failure),
      meeting_(options_.rank, options_.token, options_.peers, listener_.fd()),
      connections_(options_.peers.size()),
      has_left_(options_.peers.size()) {}

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
    if (missing.empty()) return {};
    std::vector<pollfd> wanted = meeting_.wanted();
    const Deadline::Clock::time_point until = meeting_.next_timeout();
    const bool is_first = until < deadline.time();
    const auto left = until - Deadline::Clock::now();
    if (!wait(wanted, is_first ? Deadline::after(left) : deadline) && !is_first) return missing;
    meeting_.proceed(wanted);
  }
}

void Mesh::keep(int peer, Socket socket) {
  const std::lock_guard lock(mutex_);
  connections_[index(peer)] = std::move(socket);
}

bool Mesh::wait(std::vector<pollfd>& wanted, Deadline deadline) {
  const std::size_t count = wanted.size();
  wanted.push_back({failure_.alarm_fd(), POLLIN, 0});
  std::vector<int> watched;
  for (std::size_t peer = 0; peer < connections_.size(); ++peer) {
    if (!connections_[peer].is_open() || has_left_[peer]) continue;
    watched.push_back(static_cast<int>(peer));
    wanted.push_back({connections_[peer].fd(), POLLRDHUP, 0});
  }
  int ready = 0;
  do {
    ready = ::poll(wanted.data(), wanted.size(), deadline.remaining_poll_milliseconds());
    if (ready < 0 && errno != EINTR) throw_system_error("process group: poll", errno);
  } while (ready < 0 || (ready == 0 && !deadline.passed()));
  if (wanted[count].revents != 0) failure_.check();
  for (std::size_t i = 0; i < watched.size(); ++i) {
    if (wanted[count + 1 + i].revents != 0) look_after(watched[i]);
  }
  wanted.resize(count);
  return ready > 0;
}

/// A rank has closed its end of the connection. If it said good-bye, or has data waiting here that
/// came before, whoever waits for it will see.
void Mesh::look_after(int peer) {
  Frame frame;
  const int fd = connections_[index(peer)].fd();
  const ssize_t got = ::recv(fd, &frame, sizeof frame, MSG_PEEK | MSG_DONTWAIT);
  if (got > 0) {
    has_left_[index(peer)] = true;
  } else if (got == 0 || (errno != EAGAIN && errno != EINTR)) {
    lose(peer, got == 0 ? 0 : errno);
  }
}

void Mesh::lose(int peer, int error) {
  const bool is_closed = error == 0 || error == ECONNRESET || error == EPIPE;
  lose(peer, is_closed ? "closed its connection: it died, or failed itself"
                       : "is lost: " + std::generic_category().message(error));
}

void Mesh::lose(int peer, const std::string& why) {
  failure_.fail(FailureKind::died, peer, "rank " + std::to_string(peer) + " " + why);
}

void Mesh::leave() noexcept {
  const std::lock_guard lock(mutex_);
  Frame frame;
  frame.kind = FrameKind::leave;
  for (auto& connection : connections_) {
    if (!connection.is_open()) continue;
    ::send(connection.fd(), &frame, sizeof frame, MSG_NOSIGNAL | MSG_DONTWAIT);
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
