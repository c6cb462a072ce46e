// Connections between agents, and to peers that do not respond.
#include "rendezvous/membership/peer_probe.hpp"

#include "rendezvous/base/unique_fd.hpp"
#include "rendezvous/membership/connect.hpp"
#include "rendezvous/store/listener.hpp"
#include "tests/support/no_descriptors.hpp"
#include "tests/support/skip.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <doctest/doctest.h>

#include <algorithm>
#include <arpa/inet.h>
#include <netinet/in.h>
#include <optional>
#include <poll.h>
#include <string>
#include <sys/socket.h>
#include <unistd.h>
#include <vector>

namespace peer_probe_test {

using namespace ddprun;
using namespace ddprun::membership;
using ddprun::test::NoDescriptors;
using namespace std::chrono_literals;

namespace {

using Indices = std::vector<std::uint32_t>;

Indices probe(boost::asio::io_context& context, std::vector<ProbeAddress> peers,
              Deadline::Duration timeout = 20s) {
  std::optional<Indices> unreachable;
  const auto run = [&]() -> boost::asio::awaitable<void> {
    auto finding = find_unreachable(std::move(peers), Deadline::after(timeout));
    unreachable = co_await std::move(finding);
    context.stop();
  };
  boost::asio::co_spawn(context, run, boost::asio::detached);
  context.run();
  context.restart();
  REQUIRE(unreachable);
  return *unreachable;
}

Indices probe(std::vector<ProbeAddress> peers, Deadline::Duration timeout = 20s) {
  boost::asio::io_context context(1);
  return probe(context, std::move(peers), timeout);
}

/// With some silent peers. A probe whose end this process misses, as on a busy machine, reports
/// that all are reached; it is then repeated.
Indices probe_silent(const std::vector<ProbeAddress>& peers) {
  const auto deadline = Deadline::after(20s);
  Indices unreachable;
  while (unreachable.empty() && !deadline.passed()) unreachable = probe(peers, 300ms);
  return unreachable;
}

/// Listens at a loopback address; the kernel accepts `backlog` + 1 connections.
class Listening {
 public:
  explicit Listening(int backlog = 16) : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    auto* generic = reinterpret_cast<sockaddr*>(&address);
    REQUIRE(::bind(fd_.get(), generic, length) == 0);
    REQUIRE(::listen(fd_.get(), backlog) == 0);
    REQUIRE(::getsockname(fd_.get(), generic, &length) == 0);
    port_ = ntohs(address.sin_port);
  }

  ProbeAddress address() const { return {"127.0.0.1", port_}; }

 private:
  UniqueFd fd_;
  std::uint16_t port_ = 0;
};

ProbeAddress closed_port() {
  return Listening().address();
}

}  // namespace

TEST_SUITE("peer probe") {
  TEST_CASE("peer probe: only peers that listen are reported reachable") {
    const Listening first;
    const Listening second;
    const auto closed = closed_port();
    CHECK(probe({first.address(), closed, second.address(), closed}) == Indices{1, 3});
    CHECK(probe({}).empty());
  }

  TEST_CASE("peer probe: a peer that does not respond in time is reported unreachable") {
    const Listening peer;
    const Listening full(0);
    // Its queue has room for one; later connections get no response.
    CHECK(probe({full.address(), peer.address()}).empty());
    CHECK(probe_silent({full.address(), peer.address()}) == Indices{0});
  }

  TEST_CASE("peer probe: a peer to which no connection is attempted counts as reachable") {
    CHECK(probe({{"127.0.0.1", 0}, {"", 1}, {"a name", 1}}).empty());
    boost::asio::io_context context(1);
    const auto closed = closed_port();
    CHECK(probe(context, {closed}) == Indices{0});
    const NoDescriptors until_the_end;
    CHECK(probe(context, {closed}).empty());
  }

  TEST_CASE("peer probe: a peer counts as reachable if this process missed the time limit") {
    const Listening full(0);
    CHECK(probe({full.address()}).empty());
    boost::asio::io_context context(1);
    // Stopped from before the time limit until long after: a delay of 0.5 s or more counts as
    // missed.
    boost::asio::post(context,
                      [&context] { boost::asio::post(context, [] { ::poll(nullptr, 0, 1500); }); });
    CHECK(probe(context, {full.address()}, 300ms).empty());
    CHECK(probe_silent({full.address()}) == Indices{0});
  }

  TEST_CASE("peer probe: an agent announces an address that other machines can reach") {
    boost::asio::io_context context(1);
    CHECK(ProbeListener(context.get_executor(), "127.0.0.1").address() == ProbeAddress{});
    CHECK(ProbeListener(context.get_executor(), "fe80::1%eth0").address() == ProbeAddress{});
    CHECK(ProbeListener(context.get_executor(), "").address() == ProbeAddress{});
    CHECK(ProbeListener(context.get_executor(), "192.0.2.1").address() == ProbeAddress{});
    auto own = own_addresses();
    std::erase_if(own, [](const auto& address) {
      return is_loopback(address) || address.find(':') != std::string::npos;
    });
    if (own.empty()) return test::skip("this machine has no address but loopback ones");
    const ProbeListener listener(context.get_executor(), own.front());
    CHECK(listener.address().host == own.front());
    for (int i = 0; i < 100; ++i) REQUIRE(probe(context, {listener.address()}).empty());
  }
}

}  // namespace peer_probe_test
