// The etcd client with a real etcd, and with other servers.
#include "rendezvous/etcd/client.hpp"
#include "rendezvous/etcd/record_bounds.hpp"
#include "tests/support/etcd_server.hpp"
#include "tests/support/skip.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_future.hpp>
#include <doctest/doctest.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <utility>

namespace etcd_client_test {

using namespace ddprun;
using namespace ddprun::etcd;
using ddprun::etcd::Problem;
using namespace std::chrono_literals;
using ddprun::test::EtcdServer;
using ddprun::test::skip;
namespace asio = boost::asio;

namespace {

constexpr const char* kNoEtcd = "etcd is not installed (Debian: etcd-server)";

Deadline soon() {
  return Deadline::after(20s);
}

StoreEndpoint at(std::uint16_t port) {
  return {.host = "127.0.0.1", .port = port};
}

/// Runs an operation to its end; the context is the client's.
template <typename T>
T finish(asio::io_context& context, asio::awaitable<T> operation) {
  auto result = asio::co_spawn(context, std::move(operation), asio::use_future);
  context.restart();
  context.run();
  return result.get();
}

template <typename T>
std::string problem_of(const Result<T>& result) {
  const auto* problem = std::get_if<Problem>(&result);
  return problem == nullptr ? std::string() : problem->text;
}

/// Accepts one connection at a time, reads some bytes, sends this response and closes it; without a
/// response it sends nothing and keeps it open.
class BadServer {
 public:
  explicit BadServer(std::string answer) : answer_(std::move(answer)) {
    fd_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = ::inet_addr("127.0.0.1");
    socklen_t length = sizeof address;
    auto* generic = reinterpret_cast<sockaddr*>(&address);
    REQUIRE(::bind(fd_, generic, length) == 0);
    REQUIRE(::listen(fd_, 8) == 0);
    REQUIRE(::getsockname(fd_, generic, &length) == 0);
    port_ = ntohs(address.sin_port);
    if (!answer_.empty()) thread_ = std::thread([this] { serve(); });
  }
  ~BadServer() {
    ::shutdown(fd_, SHUT_RDWR);
    if (thread_.joinable()) thread_.join();
    ::close(fd_);
  }

  std::uint16_t port() const { return port_; }

 private:
  void serve() const {
    for (int peer = ::accept(fd_, nullptr, nullptr); peer >= 0;
         peer = ::accept(fd_, nullptr, nullptr)) {
      char request[4096];
      ::recv(peer, request, sizeof request, 0);
      for (std::size_t sent = 0; sent < answer_.size();) {
        const auto count = ::send(peer, answer_.data() + sent, answer_.size() - sent, MSG_NOSIGNAL);
        if (count <= 0) break;
        sent += static_cast<std::size_t>(count);
      }
      ::close(peer);
    }
  }

  std::string answer_;
  int fd_ = -1;
  std::uint16_t port_ = 0;
  std::thread thread_;
};

std::string ok(const std::string& body) {
  return "HTTP/1.1 200 OK\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

struct Bad {
  std::string answer;
  std::string problem;
};

const Bad kBad[] = {
    {"hello, this is no etcd\r\n\r\n",
     "the server that responds is not an HTTP server, hence not etcd"},
    {"SSH-2.0-OpenSSH_9.2\r\n", "the server that responds is an ssh server, not etcd"},
    {"-ERR unknown command 'POST'\r\n", "the server that responds is a Redis server, not etcd"},
    {"HTTP/1.1 200 OK\r\n", "partial message"},
    {"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort", "partial message"},
    {"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n", "body limit exceeded"},
    {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffff\r\n", "body limit exceeded"},
    {"HTTP/1.1 200 OK\r\nX: " + std::string(20'000, 'x') + "\r\n\r\n", "header limit exceeded"},
    {ok("no json"), "etcd sent a response that ddprun cannot parse: no json"},
    {ok("{}"), "etcd sent a response that ddprun cannot parse: {}"},
    {"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", "etcd 3.4 or newer"},
    {"HTTP/1.1 400 Bad Request\r\nContent-Length: 13\r\n\r\n{\"error\":\"x\"}", ": x"},
};

}  // namespace

TEST_SUITE("etcd client") {
  TEST_CASE("etcd client: the client that creates a key owns it until the lease ends") {
    if (!EtcdServer::is_installed()) return skip(kNoEtcd);
    const EtcdServer etcd;
    asio::io_context context;
    Client client(context.get_executor(), {at(static_cast<std::uint16_t>(etcd.port()))});
    const auto lease = std::get<Lease>(finish(context, client.grant(60s, soon())));
    CHECK(lease.time == 60s);
    CHECK(std::get<std::chrono::seconds>(finish(context, client.renew(lease.id, soon()))) == 60s);
    CHECK(client.local_address() == "127.0.0.1");
    const Transaction election{.conditions = {{"k", 0}},
                               .puts = {{"k", std::string("v\0\xff", 3), lease.id}},
                               .read = Range{"k"}};
    const auto first =
        std::get<TransactionAnswer>(finish(context, client.commit(election, soon())));
    const auto second =
        std::get<TransactionAnswer>(finish(context, client.commit(election, soon())));
    CHECK(first.has_succeeded);
    CHECK_FALSE(second.has_succeeded);
    REQUIRE(second.keys.size() == 1);
    CHECK(second.keys == first.keys);
    CHECK(first.keys[0].value == std::string("v\0\xff", 3));
    CHECK(first.keys[0].lease == lease.id);
    CHECK(first.keys[0].created == first.revision);

    // A client that did not create the key cannot write it.
    const Transaction other{.conditions = {{"k", first.revision - 1}}, .puts = {{"k", "x", 0}}};
    const auto fenced = std::get<TransactionAnswer>(finish(context, client.commit(other, soon())));
    CHECK_FALSE(fenced.has_succeeded);

    finish(context, client.revoke(lease.id, soon()));
    // Changes from before the watch are reported, too.
    CHECK(finish(context, client.wait_for_change({"k"}, second.revision + 1, soon())));
    const auto look = finish(context, client.commit({.read = Range{"k"}}, soon()));
    CHECK(std::get<TransactionAnswer>(look).keys.empty());
    CHECK(std::get<std::chrono::seconds>(finish(context, client.renew(lease.id, soon()))) == 0s);
  }

  TEST_CASE("etcd client: the longest requests of a run are stored and returned") {
    if (!EtcdServer::is_installed()) return skip(kNoEtcd);
    const EtcdServer etcd;
    asio::io_context context;
    Client client(context.get_executor(), {at(static_cast<std::uint16_t>(etcd.port()))});
    const std::string record(kRecordBytesMax, 'r');
    for (const auto bytes : {kConfigBytesMax, kOutcomeBytesMax}) {
      const std::string other(bytes, 'o');
      const Transaction writing{.conditions = {{"coordinator", 0}},
                                .puts = {{"run/record", record, 0}, {"run/other", other, 0}}};
      const auto written = finish(context, client.commit(writing, soon()));
      REQUIRE_MESSAGE(problem_of(written) == "", problem_of(written));
      const Transaction reading{.read = prefix_range("run/")};
      const auto read = finish(context, client.commit(reading, soon()));
      REQUIRE_MESSAGE(problem_of(read) == "", problem_of(read));
      const auto& keys = std::get<TransactionAnswer>(read).keys;
      REQUIRE(keys.size() == 2);
      CHECK(keys[0].value == other);
      CHECK(keys[1].value == record);
    }
  }

  TEST_CASE("etcd client: a watch without changes ends at its deadline") {
    if (!EtcdServer::is_installed()) return skip(kNoEtcd);
    const EtcdServer etcd;
    asio::io_context context;
    Client client(context.get_executor(), {at(static_cast<std::uint16_t>(etcd.port()))});
    CHECK_FALSE(finish(context, client.wait_for_change({"k"}, 2, Deadline::after(50ms))));
  }

  TEST_CASE("etcd client: a server of another kind is reported") {
    for (const auto& bad : kBad) {
      CAPTURE(bad.answer.substr(0, 100));
      const BadServer server(bad.answer);
      asio::io_context context;
      Client client(context.get_executor(), {at(server.port())});
      const auto problem = problem_of(finish(context, client.grant(3s, soon())));
      CAPTURE(problem);
      CHECK(problem.find(bad.problem) != std::string::npos);
      CHECK_FALSE(problem_of(finish(context, client.commit({}, soon()))).empty());
      CHECK_FALSE(finish(context, client.wait_for_change({"k"}, 1, soon())));
    }
  }

  TEST_CASE("etcd client: requests to a silent etcd end at the deadline") {
    const BadServer silent("");
    asio::io_context context;
    Client client(context.get_executor(), {at(silent.port())});
    const auto result = finish(context, client.grant(3s, Deadline::after(50ms)));
    CHECK(problem_of(result).find("no answer after") != std::string::npos);
    CHECK_FALSE(finish(context, client.wait_for_change({"k"}, 1, Deadline::after(50ms))));
  }

  TEST_CASE("etcd client: an endpoint without a leader is replaced by the next one") {
    const BadServer sick("HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n");
    const BadServer well(ok(R"({"ID":"12","TTL":"3"})"));
    asio::io_context context;
    Client client(context.get_executor(), {at(sick.port()), at(well.port())});
    CHECK(std::get<Lease>(finish(context, client.grant(3s, soon()))) == Lease{12, 3s});
    CHECK(client.endpoint() == at(well.port()));
  }
}

}  // namespace etcd_client_test
