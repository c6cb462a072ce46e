// The kernel's list of TCP connections.
#include "launcher/process/tcp_connections.hpp"

#include "rendezvous/base/endpoint.hpp"
#include "rendezvous/base/unique_fd.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <arpa/inet.h>
#include <netinet/in.h>
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

}  // namespace

TEST_SUITE("TCP connections") {
  TEST_CASE("TCP connections: a connection is listed with its socket and peer") {
    const Connection own;
    const auto inode = inode_of(own.client.get());
    CHECK(sockets_of(::getpid()).contains(inode));
    CHECK(sockets_of(::getpid()).contains(inode_of(own.server.get())));
    const auto all = tcp_connections();
    const auto found =
        std::find_if(all.begin(), all.end(), [&](const auto& one) { return one.inode == inode; });
    REQUIRE(found != all.end());
    CHECK(to_string(found->peer) == own.address);
  }

  TEST_CASE("TCP connections: data that the peer does not read is not regarded as lost") {
    const Connection own;
    const std::string data(std::size_t{1} << 20, 'x');
    while (::send(own.client.get(), data.data(), data.size(), MSG_DONTWAIT) > 0) {
    }
    for (const auto& one : tcp_connections()) {
      if (one.inode == inode_of(own.client.get())) CHECK(one.retransmissions == 0);
    }
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
