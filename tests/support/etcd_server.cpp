#include "tests/support/etcd_server.hpp"

#include "rendezvous/etcd/base64.hpp"
#include "rendezvous/etcd/messages.hpp"

#include <algorithm>
#include <arpa/inet.h>
#include <csignal>
#include <cstdlib>
#include <netinet/in.h>
#include <sstream>
#include <stdexcept>
#include <sys/socket.h>
#include <unistd.h>
#include <utility>

namespace ddprun::test {

namespace {

/// Returns what the server sends before it closes the connection; empty if it is unavailable.
std::string converse(int port, const std::string& request) {
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

/// Returns the body of the response to a request with this body; empty without a response.
std::string post(int port, const std::string& path, const std::string& body) {
  const auto answer = converse(port, "POST " + path + " HTTP/1.0\r\nContent-Length: " +
                                         std::to_string(body.size()) + "\r\n\r\n" + body);
  const auto begin = answer.find("\r\n\r\n");
  return begin == std::string::npos ? "" : answer.substr(begin + 4);
}

/// Returns the first string value of this name in a response.
std::string text_in(const std::string& json, const std::string& name) {
  const auto before = "\"" + name + "\":\"";
  const auto found = json.find(before);
  if (found == std::string::npos) return "";
  const auto begin = found + before.size();
  return json.substr(begin, json.find('"', begin) - begin);
}

etcd::TransactionAnswer commit(int port, const etcd::Transaction& transaction) {
  const auto body = etcd::transaction_request(transaction);
  const auto parsed = etcd::parse_transaction(post(port, "/v3/kv/txn", body));
  if (std::holds_alternative<etcd::Problem>(parsed)) {
    throw std::runtime_error(std::get<etcd::Problem>(parsed).text);
  }
  return std::get<etcd::TransactionAnswer>(parsed);
}

}  // namespace

std::vector<std::string> etcd_command(const std::string& name, const std::string& client,
                                      const std::string& peer, const std::string& cluster,
                                      const std::string& data_folder) {
  return {"etcd",
          "--name",
          name,
          "--data-dir",
          data_folder,
          "--listen-client-urls",
          "http://" + client,
          "--advertise-client-urls",
          "http://" + client,
          "--listen-peer-urls",
          "http://" + peer,
          "--initial-advertise-peer-urls",
          "http://" + peer,
          "--initial-cluster",
          cluster,
          "--logger",
          "zap",
          "--log-level",
          "error"};
}

bool EtcdServer::is_installed() {
  std::istringstream path(std::getenv("PATH"));
  for (std::string folder; std::getline(path, folder, ':');) {
    if (::access((folder + "/etcd").c_str(), X_OK) == 0) return true;
  }
  return false;
}

EtcdServer::EtcdServer() : EtcdServer("default") {
  start();
}

EtcdServer::EtcdServer(const EtcdTls& tls) : EtcdServer("default") {
  tls_ = tls;
  start();
}

EtcdServer::EtcdServer(std::string name) : name_(std::move(name)) {}

void EtcdServer::kill() {
  process_->signal(SIGKILL);
  process_->wait();
}

void EtcdServer::start() {
  join(entry());
  await_health();
}

void EtcdServer::join(const std::string& cluster) {
  process_ = std::make_unique<Program>(command(cluster));
}

std::vector<std::string> EtcdServer::command(const std::string& cluster) const {
  auto arguments = etcd_command(name_, endpoint(), peer(), cluster, folder_ / "data");
  if (!tls_) return arguments;
  const auto set = [&](const std::string& option, const std::string& value) {
    *(std::find(arguments.begin(), arguments.end(), option) + 1) = value;
  };
  const auto own = "https://" + endpoint();
  set("--listen-client-urls", own + ",http://127.0.0.1:" + plain_port_.text());
  set("--advertise-client-urls", own);
  arguments.insert(arguments.end(), {"--cert-file", tls_->certificate, "--key-file", tls_->key,
                                     "--client-cert-auth", "--trusted-ca-file", tls_->authority});
  return arguments;
}

void EtcdServer::await_health() const {
  const bool is_healthy = wait_until([this] {
    return converse(own_port(), "GET /health HTTP/1.0\r\n\r\n").find("\"true\"") !=
           std::string::npos;
  });
  if (!is_healthy) throw std::runtime_error("etcd has not become healthy");
}

bool EtcdServer::is_leader() const {
  const auto status = post(own_port(), "/v3/maintenance/status", "{}");
  const auto own = text_in(status, "member_id");
  return !own.empty() && own == text_in(status, "leader");
}

std::vector<std::string> EtcdServer::keys(const std::string& prefix) const {
  std::vector<std::string> lines;
  for (const auto& key : commit(own_port(), {.read = etcd::prefix_range(prefix)}).keys) {
    lines.push_back(key.key + " " + key.value);
  }
  return lines;
}

std::string EtcdServer::value(const std::string& key) const {
  const auto found = commit(own_port(), {.read = etcd::Range{key}}).keys;
  return found.empty() ? std::string() : found.front().value;
}

void EtcdServer::remove(const std::string& key) const {
  post(own_port(), "/v3/kv/deleterange", R"({"key":")" + etcd::to_base64(key) + "\"}");
}

void EtcdServer::put(const std::string& key, const std::string& value) const {
  commit(own_port(), {.puts = {{key, value, 0}}});
}

EtcdCluster::EtcdCluster() {
  for (const char* name : {"a", "b", "c"}) members_.push_back(std::make_unique<EtcdServer>(name));
  for (const auto& member : members_) {
    entries_ += (entries_.empty() ? "" : ",") + member->entry();
  }
  for (const auto& member : members_) member->join(entries_);
  for (const auto& member : members_) member->await_health();
}

std::string EtcdCluster::endpoints() const {
  std::string endpoints;
  for (const auto& member : members_) {
    endpoints += (endpoints.empty() ? "" : ",") + member->endpoint();
  }
  return endpoints;
}

int EtcdCluster::leader() const {
  const auto find = [this] {
    return std::find_if(members_.begin(), members_.end(),
                        [](const auto& member) { return member->is_leader(); });
  };
  if (!wait_until([&] { return find() != members_.end(); })) {
    throw std::runtime_error("etcd has no leader");
  }
  return static_cast<int>(find() - members_.begin());
}

}  // namespace ddprun::test
