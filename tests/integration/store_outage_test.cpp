// The store without descriptors, without a server, or without responses.
#include "rendezvous/wire/request.hpp"
#include "tests/support/raw_client.hpp"
#include "tests/support/test_store.hpp"
#include <ddprun/error.hpp>

#include <doctest/doctest.h>

#include <arpa/inet.h>
#include <chrono>
#include <future>
#include <memory>
#include <netinet/in.h>
#include <poll.h>
#include <string>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

namespace store_outage_test {

namespace wire = ddprun::wire;
using ddprun::Deadline;
using ddprun::Errc;
using ddprun::Error;
using ddprun::Store;
using ddprun::StoreEndpoint;
using ddprun::test::RawClient;
using ddprun::test::store_greeting;
using ddprun::test::store_request;
using ddprun::test::TestStore;
using namespace std::chrono_literals;

namespace {

Deadline soon() {
  return Deadline::after(20s);
}

/// Leaves this process this number of free descriptors during its lifetime.
class FewDescriptors {
 public:
  explicit FewDescriptors(rlim_t free) {
    REQUIRE(::getrlimit(RLIMIT_NOFILE, &before_) == 0);
    const int lowest_free = ::dup(STDIN_FILENO);
    REQUIRE(lowest_free >= 0);
    ::close(lowest_free);
    rlimit limit = before_;
    limit.rlim_cur = static_cast<rlim_t>(lowest_free) + free;
    REQUIRE(::setrlimit(RLIMIT_NOFILE, &limit) == 0);
  }
  FewDescriptors(const FewDescriptors&) = delete;
  FewDescriptors& operator=(const FewDescriptors&) = delete;
  ~FewDescriptors() { ::setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_{};
};

/// A port of this machine reserved for the test: connections are refused, or with listen() accepted
/// by the kernel and never answered.
class OwnPort {
 public:
  OwnPort() : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const int on = 1;
    ::setsockopt(fd_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    REQUIRE(::bind(fd_, reinterpret_cast<sockaddr*>(&address), length) == 0);
    REQUIRE(::getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &length) == 0);
    port_ = ntohs(address.sin_port);
  }
  OwnPort(const OwnPort&) = delete;
  OwnPort& operator=(const OwnPort&) = delete;
  ~OwnPort() { close(); }

  StoreEndpoint endpoint() const { return {.host = "127.0.0.1", .port = port_}; }

  void listen() const { REQUIRE(::listen(fd_, 8) == 0); }

  /// Waits for a connection and closes it.
  void turn_one_away() const {
    pollfd wanted{.fd = fd_, .events = POLLIN, .revents = 0};
    REQUIRE(::poll(&wanted, 1, 20'000) == 1);
    const int connection = ::accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC);
    REQUIRE(connection >= 0);
    ::close(connection);
  }

  void close() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }

 private:
  int fd_;
  std::uint16_t port_ = 0;
};

/// Returns the error of Store::connect; the test fails without one.
std::string connect_error(const StoreEndpoint& endpoint, Deadline deadline) {
  try {
    Store::connect(endpoint, deadline);
  } catch (const Error& error) {
    CHECK(error.code() == Errc::timeout);
    return error.what();
  }
  FAIL("connected to nobody");
  return {};
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::string name_of(const StoreEndpoint& endpoint) {
  return "store at 127.0.0.1:" + std::to_string(endpoint.port) + ": ";
}

}  // namespace

TEST_SUITE("store outage") {
  TEST_CASE("store outage: a server without free descriptors keeps serving its clients") {
    TestStore server;
    Store early = server.connect();
    const auto greeting = store_greeting() + store_request(wire::Ping{7});
    {
      // One for the client's side of the connection, none for the server's.
      const FewDescriptors few(1);
      const RawClient late(server.endpoint());
      late.send(greeting);
      CHECK(server.wait_until([](const auto& stats) { return stats.accept_failures > 0; }));
      CHECK(early.add("n", 1, soon()) == 1);
      CHECK(late.is_open_and_silent());
      // It retries without end, and logs that at growing intervals.
      CHECK(server.wait_until([](const auto& stats) { return stats.accept_failures > 2; }));
    }
    CHECK(contains(server.warnings().at(0), "cannot accept a connection: Too many open files"));
    CHECK(server.warnings().size() <= 3);
    CHECK(server.connect().add("n", 1, soon()) == 2);
  }

  TEST_CASE("store outage: a connection is accepted once the server has a free descriptor") {
    TestStore server;
    const auto greeting = store_greeting() + store_request(wire::Ping{7});
    auto few = std::make_unique<FewDescriptors>(1);
    const RawClient late(server.endpoint());
    late.send(greeting);
    CHECK(server.wait_until([](const auto& stats) { return stats.accept_failures > 0; }));
    few.reset();
    CHECK(late.receive(4) == std::string("\x07\0\0\0", 4));
  }

  TEST_CASE("store outage: a client connects to a server that starts later") {
    OwnPort port;
    port.listen();
    auto sum = std::async(std::launch::async, [&] {
      return Store::connect(port.endpoint(), soon()).add("n", 3, soon());
    });
    port.turn_one_away();
    port.close();
    const TestStore server({}, port.endpoint().port);
    CHECK(sum.get() == 3);
  }

  TEST_CASE("store outage: a refused connection is retried until the deadline") {
    const OwnPort port;
    const auto start = Deadline::Clock::now();
    const std::string message = connect_error(port.endpoint(), Deadline::after(200ms));
    CHECK(Deadline::Clock::now() - start >= 200ms);
    CHECK(contains(message, name_of(port.endpoint()) + "cannot connect: Connection refused ("));
    CHECK(contains(message, ") after "));
    CHECK(contains(message, "(0.2 s allowed)"));
  }

  TEST_CASE("store outage: connecting to a server that never responds fails at the deadline") {
    const OwnPort port;
    port.listen();
    const std::string message = connect_error(port.endpoint(), Deadline::after(200ms));
    CHECK(contains(message, name_of(port.endpoint()) +
                                "cannot connect: greeting: no answer (1 attempt) after "));
    CHECK(contains(message, "(0.2 s allowed)"));
  }

  TEST_CASE("store outage: a call to a server that stopped responding fails at the deadline") {
    TestStore server;
    Store store = server.connect();
    std::string message;
    std::string next_message;
    server.run([&](ddprun::StoreServer&) {
      // Blocks the server's thread.
      try {
        store.add("n", 1, Deadline::after(100ms));
      } catch (const Error& error) {
        CHECK(error.code() == Errc::timeout);
        message = error.what();
      }
      try {
        store.add("n", 1, soon());
      } catch (const Error& error) {
        CHECK(error.code() == Errc::closed);
        next_message = error.what();
      }
    });
    CHECK(contains(message, name_of(server.endpoint()) + "add n: no answer after "));
    CHECK(contains(message, "(0.1 s allowed)"));
    CHECK(contains(next_message, "the connection was closed by an earlier error"));
  }
}

}  // namespace store_outage_test
