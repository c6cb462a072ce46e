#include "tests/support/etcd_server.hpp"

#include "rendezvous/etcd/messages.hpp"
#include "tests/support/cluster.hpp"

#include <arpa/inet.h>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <netinet/in.h>
#include <sstream>
#include <stdexcept>
#include <sys/socket.h>
#include <unistd.h>

namespace ddprun::test {

namespace {

/// What the server answers before it closes the connection; empty if it is not there.
std::string exchange(int port, const std::string& request) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = ::inet_addr("127.0.0.1");
  const timeval limit{.tv_sec = 5, .tv_usec = 0};
  ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  std::string answer;
  const bool is_sent = ::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0 &&
                       ::send(fd, request.data(), request.size(), MSG_NOSIGNAL) >= 0;
  char buffer[4096];
  for (ssize_t count = 1; is_sent && count > 0;) {
    count = ::recv(fd, buffer, sizeof buffer, 0);
    if (count > 0) answer.append(buffer, static_cast<std::size_t>(count));
  }
  ::close(fd);
  return answer;
}

}  // namespace

bool EtcdServer::is_installed() {
  std::istringstream path(std::getenv("PATH"));
  for (std::string folder; std::getline(path, folder, ':');) {
    if (::access((folder + "/etcd").c_str(), X_OK) == 0) return true;
  }
  return false;
}

EtcdServer::EtcdServer() : port_(free_port()), peer_port_(free_port()) {
  start();
}

std::string EtcdServer::endpoint() const {
  return "127.0.0.1:" + std::to_string(port_);
}

void EtcdServer::kill() {
  process_->signal(SIGKILL);
  process_->wait();
}

void EtcdServer::start() {
  const auto client = "http://" + endpoint();
  const auto peer = "http://127.0.0.1:" + std::to_string(peer_port_);
  process_ = std::make_unique<Program>(
      std::vector<std::string>{"etcd", "--data-dir", folder_ / "data", "--listen-client-urls",
                               client, "--advertise-client-urls", client, "--listen-peer-urls",
                               peer, "--initial-advertise-peer-urls", peer, "--initial-cluster",
                               "default=" + peer, "--logger", "zap", "--log-level", "error"});
  const bool is_healthy = wait_until([this] {
    return exchange(port_, "GET /health HTTP/1.0\r\n\r\n").find("\"true\"") != std::string::npos;
  });
  if (!is_healthy) throw std::runtime_error("etcd has not become healthy");
}

std::vector<std::string> EtcdServer::keys(const std::string& prefix) const {
  const auto body = etcd::transaction_request({.read = etcd::prefix_range(prefix)});
  const auto answer =
      exchange(port_, "POST /v3/kv/txn HTTP/1.0\r\nContent-Length: " + std::to_string(body.size()) +
                          "\r\n\r\n" + body);
  const auto begin = answer.find("\r\n\r\n");
  if (begin == std::string::npos) throw std::runtime_error("etcd has not answered");
  const auto parsed = etcd::parse_transaction(answer.substr(begin + 4));
  std::vector<std::string> lines;
  for (const auto& key : std::get<etcd::TransactionAnswer>(parsed).keys) {
    lines.push_back(key.key + " " + key.value);
  }
  return lines;
}

}  // namespace ddprun::test
