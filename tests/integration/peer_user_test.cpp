// The user of the socket at the other end of a connection.
#include "rendezvous/store/peer_user.hpp"

#include "rendezvous/base/unique_fd.hpp"
#include "tests/support/as_user.hpp"
#include "tests/support/skip.hpp"

#include <doctest/doctest.h>
#include <sched.h>

#include <arpa/inet.h>
#include <cstring>
#include <fcntl.h>
#include <netinet/in.h>
#include <string>
#include <string_view>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

namespace peer_user_test {

using namespace ddprun;
using namespace ddprun::test;

namespace {

struct Address {
  sockaddr_storage storage{};
  socklen_t length = sizeof storage;

  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
};

Address address_of(const std::string& host, std::uint16_t port) {
  Address address;
  auto* ipv4 = reinterpret_cast<sockaddr_in*>(&address.storage);
  auto* ipv6 = reinterpret_cast<sockaddr_in6*>(&address.storage);
  if (::inet_pton(AF_INET, host.c_str(), &ipv4->sin_addr) == 1) {
    ipv4->sin_family = AF_INET;
    ipv4->sin_port = htons(port);
    address.length = sizeof *ipv4;
  } else {
    REQUIRE(::inet_pton(AF_INET6, host.c_str(), &ipv6->sin6_addr) == 1);
    ipv6->sin6_family = AF_INET6;
    ipv6->sin6_port = htons(port);
    address.length = sizeof *ipv6;
  }
  return address;
}

UniqueFd make_socket(Address& address) {
  return UniqueFd(::socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
}

std::uint16_t port_of(int fd) {
  sockaddr_in address{};  // the port is at the same offset for both families
  Address own;
  REQUIRE(::getsockname(fd, own.get(), &own.length) == 0);
  std::memcpy(&address, &own.storage, sizeof address);
  return ntohs(address.sin_port);
}

UniqueFd listen_at(const std::string& host, std::uint16_t port = 0) {
  auto address = address_of(host, port);
  auto fd = make_socket(address);
  const int on = 1;
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  REQUIRE(::bind(fd.get(), address.get(), address.length) == 0);
  REQUIRE(::listen(fd.get(), 1) == 0);
  return fd;
}

/// From a local address; empty: the kernel chooses.
UniqueFd connect_to(const std::string& host, std::uint16_t port, const std::string& from = {}) {
  auto address = address_of(host, port);
  auto fd = make_socket(address);
  if (!from.empty()) {
    auto source = address_of(from, 0);
    REQUIRE(::bind(fd.get(), source.get(), source.length) == 0);
  }
  REQUIRE(::connect(fd.get(), address.get(), address.length) == 0);
  return fd;
}

UniqueFd accept_from(const UniqueFd& listener) {
  UniqueFd fd(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  REQUIRE(fd.get() >= 0);
  return fd;
}

/// Without FIN: the kernel forgets the socket at once.
void reset(UniqueFd client) {
  const linger at_once{.l_onoff = 1, .l_linger = 0};
  ::setsockopt(client.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
}

struct Route {
  const char* listen_address;
  const char* connect_address;
};

/// The last two are dual-stack sockets: the server's and the client's.
constexpr Route kRoutes[] = {{"127.0.0.1", "127.0.0.1"},
                             {"0.0.0.0", "127.1.2.3"},
                             {"::1", "::1"},
                             {"::", "127.0.0.1"},
                             {"127.0.0.1", "::ffff:127.0.0.1"}};

ConnectionEnd end_of(int fd, int (*address_of_end)(int, sockaddr*, socklen_t*)) {
  Address address;
  REQUIRE(address_of_end(fd, address.get(), &address.length) == 0);
  const auto end = connection_end(address.storage);
  REQUIRE(end);
  return *end;
}

bool has_ipv6() {
  return ::access("/proc/net/if_inet6", F_OK) == 0;
}

void check_user(const Route& route, uid_t user) {
  CAPTURE(route.listen_address);
  CAPTURE(route.connect_address);
  CAPTURE(user);
  const auto listener = listen_at(route.listen_address);
  UniqueFd client;
  {
    const AsUser other(user);
    client = connect_to(route.connect_address, port_of(listener.get()));
  }
  const auto server = accept_from(listener);
  PeerUsers users;
  const auto found = users.of(server.get());
  REQUIRE(std::holds_alternative<LocalUser>(found));
  CHECK(std::get<LocalUser>(found).id == user);
  const auto search =
      find_connection(end_of(server.get(), &::getpeername), end_of(server.get(), &::getsockname));
  REQUIRE(search.row);
  CHECK(search.row->user == user);
  CHECK(search.row->has_owner);
}

bool is_unknown(const PeerUser& user) {
  return std::holds_alternative<UnknownUser>(user);
}

}  // namespace

TEST_SUITE("peer user") {
  TEST_CASE("peer user: INET_DIAG and /proc yield the user of a local client") {
    const bool has_other = can_be_other_user();
    for (const auto& route : kRoutes) {
      const bool is_ipv6 = std::string_view(route.listen_address).starts_with(':') ||
                           std::string_view(route.connect_address).starts_with(':');
      if (is_ipv6 && !has_ipv6()) continue;
      check_user(route, ::geteuid());
      if (has_other) check_user(route, kOtherUser);
    }
    if (!has_other) skip("only root can make the sockets of another user");
  }

  TEST_CASE("peer user: the user of a client that has reset the connection is unknown") {
    const auto listener = listen_at("127.0.0.1");
    auto client = connect_to("127.0.0.1", port_of(listener.get()));
    const auto server = accept_from(listener);
    PeerUsers users;
    CHECK_FALSE(is_unknown(users.of(server.get())));
    reset(std::move(client));
    CHECK(is_unknown(users.of(server.get())));
  }

  TEST_CASE("peer user: a listening socket at the client's port is not taken for the client") {
    const auto listener = listen_at("127.0.0.1");
    // At an address of its own, where no other program uses the port.
    const std::string from = "127.7.7.7";
    auto client = connect_to("127.0.0.1", port_of(listener.get()), from);
    const auto port = port_of(client.get());
    const auto server = accept_from(listener);
    reset(std::move(client));
    const auto other_listener = listen_at(from, port);
    PeerUsers users;
    CHECK(is_unknown(users.of(server.get())));
  }

  TEST_CASE("peer user: a client that closed before accept is not taken for root") {
    if (!can_be_other_user()) return skip("only root can make the sockets of another user");
    const auto listener = listen_at("127.0.0.1");
    {
      const AsUser other(kOtherUser);
      connect_to("127.0.0.1", port_of(listener.get()));
    }
    const auto server = accept_from(listener);
    PeerUsers users;
    const auto found = users.of(server.get());
    // Depends on the kernel version.
    const auto* user = std::get_if<LocalUser>(&found);
    CHECK((is_unknown(found) || (user != nullptr && user->id == kOtherUser)));
  }

  TEST_CASE("peer user: a user outside the agent's user namespace is unknown") {
    if (!can_be_other_user()) return skip("only root can make the sockets of another user");
    const auto listener = listen_at("127.0.0.1");
    const auto own_client = connect_to("127.0.0.1", port_of(listener.get()));
    const auto of_own = accept_from(listener);
    UniqueFd client;
    {
      const AsUser other(kOtherUser);
      client = connect_to("127.0.0.1", port_of(listener.get()));
    }
    const auto of_other = accept_from(listener);
    enum : int { kRight, kWrong, kNotPermitted };
    const pid_t child = ::fork();
    if (child == 0) {
      if (::unshare(CLONE_NEWUSER) != 0) ::_exit(kNotPermitted);
      const UniqueFd map(::open("/proc/self/uid_map", O_WRONLY | O_CLOEXEC));
      const std::string_view own_user = "0 0 1";
      if (::write(map.get(), own_user.data(), own_user.size()) < 0) ::_exit(kNotPermitted);
      PeerUsers users;
      const auto own = users.of(of_own.get());
      const auto* user = std::get_if<LocalUser>(&own);
      const bool is_right =
          user != nullptr && user->id == 0 && is_unknown(users.of(of_other.get()));
      ::_exit(is_right ? kRight : kWrong);
    }
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    REQUIRE(WIFEXITED(status));
    if (WEXITSTATUS(status) == kNotPermitted) return skip("user namespaces are not permitted here");
    CHECK(WEXITSTATUS(status) == kRight);
  }
}

}  // namespace peer_user_test
