// Connections to machines that do not answer, and to peers that do not read.
#include "worker_runtime/backends/host/tcp/silence.hpp"

#include "worker_runtime/backends/host/tcp/socket.hpp"
#include <ddprun/deadline.hpp>

#include <doctest/doctest.h>

#include <array>
#include <chrono>
#include <linux/filter.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <vector>

namespace silence_test {

using namespace ddprun;
using namespace ddprun::tcp;
using namespace std::chrono_literals;

namespace {

constexpr auto kLimit = std::chrono::seconds(60);

struct Connection {
  Socket sender;
  Socket receiver;
};

Connection connect() {
  const Listening listening = listen_for_peers("127.0.0.1");
  Connection made{.sender = dial("127.0.0.1", listening.address.port).socket, .receiver = {}};
  pollfd pending{listening.socket.fd(), POLLIN, 0};
  REQUIRE(::poll(&pending, 1, 60'000) == 1);
  made.receiver = accept_from(listening.socket.fd());
  REQUIRE(made.receiver.is_open());
  pollfd connected{made.sender.fd(), POLLOUT, 0};
  REQUIRE(::poll(&connected, 1, 60'000) == 1);
  return made;
}

/// Drops incoming packets before they are acknowledged, like a machine that is down.
void drop_packets(int fd) {
  sock_filter nothing = {BPF_RET | BPF_K, 0, 0, 0};
  const sock_fprog program{1, &nothing};
  REQUIRE(::setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program) == 0);
}

void send_all_that_fits(int fd) {
  const std::vector<char> bytes(1 << 20);
  while (::send(fd, bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL) > 0) continue;
}

template <typename IsDone>
bool comes(const IsDone& is_done) {
  const auto deadline = Deadline::after(kLimit);
  while (!is_done() && !deadline.passed()) ::poll(nullptr, 0, 1);
  return is_done();
}

}  // namespace

TEST_SUITE("silence") {
  TEST_CASE("silence: a machine is lost once it has not answered for the limit") {
    const auto start = Silence::Clock::time_point(100s);
    const Acknowledgements quiet{.are_awaited = false, .since_last = 1h};
    const auto awaited = [](std::chrono::milliseconds since) {
      return Acknowledgements{.are_awaited = true, .since_last = since};
    };
    struct Check {
      std::chrono::seconds at;
      Acknowledgements state;
      bool is_lost;
    };
    const std::vector<std::vector<Check>> table = {
        // Data is not acknowledged.
        {{0s, awaited(1s), false}, {14s, awaited(15s), false}, {15s, awaited(16s), true}},
        // A continuous stream always has unacknowledged data.
        {{0s, awaited(0s), false}, {15s, awaited(10ms), false}, {60s, awaited(14s), false}},
        // Answers of probes come at long intervals; one is under way.
        {{0s, quiet, false}, {30s, awaited(30s), false}, {31s, quiet, false}},
        // Each check finds another probe under way.
        {{0s, awaited(30s), false}, {5s, quiet, false}, {20s, awaited(20s), false}},
        {{0s, quiet, false}, {3600s, quiet, false}},
    };
    for (const auto& row : table) {
      Silence silence;
      for (const auto& check : row) {
        CAPTURE(check.at.count());
        CHECK(silence.is_too_long(check.state, start + check.at) == check.is_lost);
      }
    }
  }

  TEST_CASE("silence: a peer that does not read answers, and a machine that is down does not") {
    const Connection busy = connect();
    send_all_that_fits(busy.sender.fd());
    const auto is_answered = [](int fd) { return !acknowledgements(fd)->are_awaited; };
    CHECK(comes([&] { return is_answered(busy.sender.fd()); }));

    const Connection down = connect();
    drop_packets(down.receiver.fd());
    send_all_that_fits(down.sender.fd());
    CHECK(acknowledgements(down.sender.fd())->are_awaited);
    CHECK(comes([&] { return acknowledgements(down.sender.fd())->since_last > 500ms; }));
    CHECK(acknowledgements(down.sender.fd())->are_awaited);
    // Its probes for room are not answered, either.
    drop_packets(busy.receiver.fd());
    CHECK(comes([&] { return acknowledgements(busy.sender.fd())->are_awaited; }));
  }

  TEST_CASE("silence: a connection between ranks has no time limit of the kernel") {
    const Connection made = connect();
    const auto limit = [&] {
      int milliseconds = -1;
      socklen_t bytes = sizeof milliseconds;
      ::getsockopt(made.sender.fd(), IPPROTO_TCP, TCP_USER_TIMEOUT, &milliseconds, &bytes);
      return milliseconds;
    };
    CHECK(limit() > 0);
    remove_time_limit(made.sender.fd());
    CHECK(limit() == 0);
  }
}

}  // namespace silence_test
