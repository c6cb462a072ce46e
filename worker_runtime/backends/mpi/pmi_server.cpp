#include "worker_runtime/backends/mpi/pmi_server.hpp"

#include "worker_runtime/backends/mpi/pmi_messages.hpp"
#include <ddprun/error.hpp>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <sys/socket.h>
#include <unistd.h>
#include <vector>

namespace ddprun::mpi {

namespace {

constexpr char kPrefix[] = "ddprun/mpi/";
constexpr char kNodePrefix[] = "ddprun/mpi/node/";

// After the start the ranks meet once more, when MPI ends.
constexpr auto kEndTimeout = std::chrono::seconds(30);

}  // namespace

PmiServer::PmiServer(const module::Member& member, Deadline deadline)
    : size_(member.world_size),
      deadline_(deadline),
      store_(Store::connect({.host = member.store_host, .port = member.store_port}, deadline)) {
  store_.set(kNodePrefix + std::to_string(member.world_rank), std::to_string(member.node_rank),
             deadline);
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0)
    throw_system_error("a socket for MPI's start", errno);
  fd_ = ends[0];
  client_fd_ = ends[1];
  ::setenv("PMI_FD", std::to_string(client_fd_).c_str(), 1);
  ::setenv("PMI_RANK", std::to_string(member.world_rank).c_str(), 1);
  ::setenv("PMI_SIZE", std::to_string(member.world_size).c_str(), 1);
  thread_ = std::thread([this] { serve(); });
}

PmiServer::~PmiServer() {
  ::shutdown(fd_, SHUT_RDWR);
  thread_.join();
  ::close(fd_);
}

void PmiServer::hide() {
  for (const char* name : {"PMI_FD", "PMI_RANK", "PMI_SIZE"}) ::unsetenv(name);
}

void PmiServer::serve() {
  std::string received;
  std::array<char, kPmiLineBytesMax> block{};
  try {
    for (bool is_last = false; !is_last;) {
      const ssize_t count = ::read(fd_, block.data(), block.size());
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) return;
      received.append(block.data(), static_cast<std::size_t>(count));
      for (std::size_t end = 0; (end = received.find('\n')) != std::string::npos;) {
        const std::string text = answer(received.substr(0, end), is_last);
        received.erase(0, end + 1);
        if (::send(fd_, text.data(), text.size(), MSG_NOSIGNAL) < 0) return;
      }
      if (received.size() > kPmiLineBytesMax) return;
    }
  } catch (const std::exception& error) {
    // MPI ends the process when its manager has gone, and knows no reason; this is the only place
    // for it.
    std::fprintf(stderr, "ddprun: starting MPI: %s\n", error.what());
    ::shutdown(fd_, SHUT_RDWR);
  }
}

std::string PmiServer::answer(const std::string& line, bool& is_last) {
  const auto limit = deadline_.passed() ? Deadline::after(kEndTimeout) : deadline_;
  const PmiAnswer answer = answer_pmi(
      line, {.put = [&](const std::string& key,
                        const std::string& value) { store_.set(kPrefix + key, value, limit); },
             .get = [&](const std::string& key) { return store_.get(kPrefix + key, deadline_); },
             .mapping = [&] { return mapping(); },
             .barrier =
                 [&] {
                   const std::string key = "ddprun/mpi_barrier/" + std::to_string(barriers_++);
                   store_.barrier(key, size_, limit);
                 }});
  is_last = answer.is_last;
  return answer.line;
}

std::string PmiServer::mapping() {
  std::vector<int> nodes;
  for (int rank = 0; rank < size_; ++rank)
    nodes.push_back(std::stoi(store_.get(kNodePrefix + std::to_string(rank), deadline_)));
  return process_mapping(nodes);
}

}  // namespace ddprun::mpi
