// The kernel's list of TCP connections.
#include "launcher/process/tcp_connections.hpp"

#include "rendezvous/base/endpoint.hpp"
#include "rendezvous/base/unique_fd.hpp"

#include <doctest/doctest.h>

#include <arpa/inet.h>
#include <array>
#include <chrono>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <optional>
#include <string>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

namespace tcp_connections_test {

using namespace ddprun;

namespace {

/// A connection through the loopback interface.
struct Connection {
  UniqueFd listener{::socket(AF_INET, SOCK_STREAM, 0)};
  UniqueFd client{::socket(AF_INET, SOCK_STREAM, 0)};
  UniqueFd server;
  std::string address;

  Connection() {
    sockaddr_in name{.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    auto* const generic = reinterpret_cast<sockaddr*>(&name);
    socklen_t size = sizeof name;
    REQUIRE(::bind(listener.get(), generic, size) == 0);
    REQUIRE(::listen(listener.get(), 1) == 0);
    REQUIRE(::getsockname(listener.get(), generic, &size) == 0);
    REQUIRE(::connect(client.get(), generic, size) == 0);
    server = UniqueFd(::accept(listener.get(), nullptr, nullptr));
    address = "127.0.0.1:" + std::to_string(ntohs(name.sin_port));
  }
};

std::uint64_t inode_of(int fd) {
  struct stat status {};
  REQUIRE(::fstat(fd, &status) == 0);
  return status.st_ino;
}

std::optional<TcpConnection> find(std::uint64_t inode) {
  const auto found = tcp_connections([inode](const auto& one) { return one.inode == inode; });
  if (found.list.empty()) return std::nullopt;
  return found.list.front();
}

}  // namespace

TEST_SUITE("TCP connections") {
  TEST_CASE("TCP connections: a connection is listed with its socket and peer") {
    const Connection own;
    const auto inode = inode_of(own.client.get());
    CHECK(sockets_of(::getpid()).contains(inode));
    CHECK(sockets_of(::getpid()).contains(inode_of(own.server.get())));
    const auto found = find(inode);
    REQUIRE(found);
    CHECK(to_string(peer_of(*found)) == own.address);
    CHECK(found->peer == parse_address("127.0.0.1"));
    const auto none = tcp_connections([](const auto&) { return false; });
    CHECK(none.is_complete);
    CHECK(none.list.empty());
  }

  TEST_CASE("TCP connections: data that the peer does not read is not regarded as lost") {
    const Connection own;
    const std::string data(std::size_t{1} << 20, 'x');
    while (::send(own.client.get(), data.data(), data.size(), MSG_DONTWAIT) > 0) {
    }
    const auto found = find(inode_of(own.client.get()));
    REQUIRE(found);
    CHECK(found->retransmissions == 0);
  }

  TEST_CASE("TCP connections: the counters show the sent bytes and the time and rate of sending") {
    const auto since = std::chrono::steady_clock::now();
    const Connection own;
    const auto inode = inode_of(own.client.get());
    std::string data(std::size_t{1} << 20, 'x');
    std::uint64_t sent = 0;
    TcpConnection before;
    for (int i = 0; i < 20; ++i) {
      const auto count = ::send(own.client.get(), data.data(), data.size(), MSG_DONTWAIT);
      REQUIRE(count > 0);
      sent += static_cast<std::uint64_t>(count);
      REQUIRE(::recv(own.server.get(), data.data(), static_cast<std::size_t>(count), MSG_WAITALL) ==
              count);
      const auto now = find(inode);
      const auto passed = std::chrono::steady_clock::now() - since;
      REQUIRE(now);
      CHECK(now->sent_bytes >= before.sent_bytes);
      CHECK(now->sent_bytes <= sent + 1);  // the kernel counts the SYN, too
      CHECK(now->sending >= before.sending);
      CHECK(now->sending <= passed + std::chrono::milliseconds(10));  // the kernel counts in ticks
      before = *now;
    }
    CHECK(before.sent_bytes >= sent / 2);
    CHECK(before.rate > 0);
  }

  TEST_CASE("TCP connections: the counters that an older kernel lacks are 0") {
    struct Message {
      nlmsghdr header{.nlmsg_len = sizeof(Message), .nlmsg_type = SOCK_DIAG_BY_FAMILY};
      inet_diag_msg body{.idiag_family = AF_INET, .idiag_state = 1, .idiag_inode = 7};
      rtattr attribute{.rta_len = sizeof(rtattr) + sizeof info, .rta_type = INET_DIAG_INFO};
      std::array<unsigned char, 104> info{};  // of Linux 3.10
    } message;
    message.body.id.idiag_dport = htons(80);
    message.body.id.idiag_dst[0] = htonl(0x0a000001);
    message.info.fill(1);
    const auto found = parse_connections({reinterpret_cast<const char*>(&message), sizeof message});
    REQUIRE(found.size() == 1);
    CHECK(found[0].inode == 7);
    CHECK(to_string(peer_of(found[0])) == "10.0.0.1:80");
    CHECK(found[0].retransmissions == 1);
    CHECK(found[0].sent_bytes == 0);
    CHECK(found[0].sending.count() == 0);
    CHECK(found[0].rate == 0);
  }

  TEST_CASE("TCP connections: numeric addresses of both families are parsed") {
    CHECK(parse_address("10.0.0.1") == parse_address("::ffff:10.0.0.1"));
    CHECK(parse_address("10.0.0.1") != parse_address("10.0.0.2"));
    CHECK(to_string(peer_of({.peer = parse_address("fd00::1").value(), .port = 9})) ==
          "[fd00::1]:9");
    for (const char* text : {"", "node0", "10.0.0", "fe80::1%eth0"})
      CHECK_FALSE(parse_address(text));
  }

  TEST_CASE("TCP connections: damaged answers of the kernel yield nothing") {
    CHECK(parse_connections("").empty());
    CHECK(parse_connections(std::string(15, '\0')).empty());
    CHECK(parse_connections(std::string(4096, '\0')).empty());
    CHECK(parse_connections(std::string(4096, '\xff')).empty());
    CHECK(sockets_of(-1).empty());
  }
}

}  // namespace tcp_connections_test
