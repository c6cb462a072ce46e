#include "rendezvous/store/listener.hpp"
#include "tests/support/as_user.hpp"
#include "tests/support/rank_processes.hpp"
#include <ddprun/error.hpp>

#include <doctest/doctest.h>

#include <cerrno>
#include <netinet/in.h>
#include <stdexcept>
#include <string>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

namespace port_reservation_test {

using ddprun::Errc;
using ddprun::Error;
using ddprun::PortReservation;
using ddprun::test::become_user;
using ddprun::test::kOtherUser;
using ddprun::test::RankProcesses;

namespace {

enum class Reuse { no, yes };

/// Tries to listen at a port of all IPv4 addresses, like a user's program. Returns 0 or errno.
int try_to_listen(std::uint16_t port, Reuse reuse) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  REQUIRE(fd >= 0);
  const int on = 1;
  if (reuse == Reuse::yes) ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  const bool is_listening =
      ::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 &&
      ::listen(fd, 1) == 0;
  const int error = is_listening ? 0 : errno;
  ::close(fd);
  return error;
}

}  // namespace

TEST_SUITE("port reservation") {
  TEST_CASE("port reservation: a process with SO_REUSEADDR can listen at a reserved port") {
    const PortReservation reservation(0);
    CHECK(reservation.port() != 0);
    CHECK(try_to_listen(reservation.port(), Reuse::yes) == 0);
    CHECK(try_to_listen(reservation.port(), Reuse::yes) == 0);
  }

  TEST_CASE("port reservation: a process without SO_REUSEADDR cannot bind a reserved port") {
    std::uint16_t port = 0;
    {
      const PortReservation reservation(0);
      port = reservation.port();
      CHECK(try_to_listen(port, Reuse::no) == EADDRINUSE);
    }
    CHECK(try_to_listen(port, Reuse::no) == 0);
  }

  TEST_CASE("port reservation: the error for a port in use names the process") {
    const auto listener = ddprun::open_listener({.host = "127.0.0.1", .port = 0});
    std::string message;
    try {
      const PortReservation reservation(listener.port);
    } catch (const Error& error) {
      CHECK(error.code() == Errc::system);
      message = error.what();
    }
    const std::string expected = "port " + std::to_string(listener.port) +
                                 " is in use by process " + std::to_string(::getpid());
    CHECK_MESSAGE(message.find(expected) != std::string::npos, message);
    ::close(listener.fd);
  }

  TEST_CASE("port reservation: the process is named even if its descriptors are unreadable") {
    RankProcesses ranks(1, [](int) -> std::string {
      if (::geteuid() == 0) become_user(kOtherUser);
      if (::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0) throw std::runtime_error("prctl");
      const auto listener = ddprun::open_listener({.host = "127.0.0.1", .port = 0});
      RankProcesses others(1, [&](int) {
        ::close(listener.fd);
        return ddprun::find_port_holder(listener.port).value_or("");
      });
      return others.wait(0).output;
    });
    const auto refused = ranks.wait(0).output;
    const auto holder = "process " + std::to_string(ranks.pid(0)) + " (";
    CHECK_MESSAGE(refused.find(holder) != std::string::npos, refused);
  }
}

}  // namespace port_reservation_test
