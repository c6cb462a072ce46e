// Acceptance of connections between ranks of different nodes.
#include "worker_runtime/backends/host/tcp/meeting.hpp"

#include <doctest/doctest.h>

#include <cerrno>
#include <chrono>
#include <memory>
#include <string>
#include <sys/socket.h>
#include <vector>

namespace peer_meeting_test {

using namespace ddprun;
using namespace ddprun::tcp;
using namespace std::chrono_literals;

namespace {

const Digest kKey = sha256("the group's key");
const Digest kOtherKey = sha256("another group's key");

/// One of two ranks that waits for connections, in a test without threads.
struct Rank {
  Rank(int number, const std::vector<PeerAddress>& peers, const Listening& listening,
       const Digest& key = kKey)
      : meeting(number, key, peers, listening.socket.fd()) {}

  /// Handles all events within `time`; returns new connections.
  std::vector<std::pair<int, Socket>> work(Deadline::Duration time) {
    auto wanted = meeting.wanted();
    const auto until = earlier(meeting.next_timeout(), Deadline::after(time));
    ::poll(wanted.data(), wanted.size(), until.remaining_poll_milliseconds());
    meeting.proceed(wanted);
    return meeting.take();
  }

  PeerMeeting meeting;
};

struct Pair {
  Listening lower = listen_for_peers("127.0.0.1");
  Listening higher = listen_for_peers("127.0.0.1");
  std::vector<PeerAddress> peers = {{{"127.0.0.1"}, lower.address.port},
                                    {{"127.0.0.1"}, higher.address.port}};
};

Socket call(const Pair& pair) {
  Dialled dialled = dial("127.0.0.1", pair.lower.address.port);
  REQUIRE(dialled.error == 0);
  pollfd connected{dialled.socket.fd(), POLLOUT, 0};
  REQUIRE(::poll(&connected, 1, 20'000) == 1);
  return std::move(dialled.socket);
}

template <typename Message>
void send_message(const Socket& socket, const Message& message) {
  REQUIRE(::send(socket.fd(), &message, sizeof message, 0) == ssize_t{sizeof message});
}

/// The listener's response to this hello.
Answer answer_to(const Hello& hello, Rank& listener, const Socket& caller) {
  send_message(caller, hello);
  Answer answer;
  std::size_t received = 0;
  auto* const bytes = reinterpret_cast<char*>(&answer);
  const auto deadline = Deadline::after(20s);
  while (received < sizeof answer && !deadline.passed()) {
    listener.work(10ms);
    const ssize_t got =
        ::recv(caller.fd(), bytes + received, sizeof answer - received, MSG_DONTWAIT);
    if (got > 0) received += static_cast<std::size_t>(got);
  }
  REQUIRE(received == sizeof answer);
  return answer;
}

/// Returns false once the listener has closed the only connection of the rank.
bool is_connected(const Rank& rank) {
  char byte = 0;
  const int fd = rank.meeting.wanted().front().fd;
  return ::recv(fd, &byte, sizeof byte, MSG_PEEK | MSG_DONTWAIT) < 0 && errno == EAGAIN;
}

/// Handles events until the listener has closed the connection.
bool is_refused(Rank& listener, const Socket& caller) {
  const auto deadline = Deadline::after(20s);
  while (!deadline.passed()) {
    if (!listener.work(10ms).empty()) return false;
    char answer = 0;
    const ssize_t got = ::recv(caller.fd(), &answer, sizeof answer, MSG_DONTWAIT);
    if (got >= 0) return got == 0;
  }
  return false;
}

/// Rank 1 connects to rank 0; returns whether both get the connection.
bool do_meet(Rank& lower, Rank& higher) {
  higher.meeting.call(0);
  bool is_lower_done = false;
  bool is_higher_done = false;
  const auto deadline = Deadline::after(20s);
  while (!(is_lower_done && is_higher_done) && !deadline.passed()) {
    for (const auto& [peer, socket] : lower.work(10ms)) is_lower_done = peer == 1;
    for (const auto& [peer, socket] : higher.work(10ms)) is_higher_done = peer == 0;
    if (!higher.meeting.unreachable().empty()) return false;
  }
  return is_lower_done && is_higher_done;
}

}  // namespace

TEST_SUITE("peer meeting") {
  TEST_CASE("peer meeting: two ranks with the same key connect") {
    const Pair pair;
    Rank lower(0, pair.peers, pair.lower);
    Rank higher(1, pair.peers, pair.higher);
    CHECK(do_meet(lower, higher));
  }

  TEST_CASE("peer meeting: ranks connect despite connections from other programs") {
    const Pair pair;
    Rank lower(0, pair.peers, pair.lower);
    Hello of_another_version = make_hello(1, 0);
    of_another_version.magic += 1;
    for (const Hello& wrong : {make_hello(0, 0), make_hello(2, 0), make_hello(-1, 0),
                               make_hello(1, 1), of_another_version}) {
      const Socket peer = call(pair);
      send_message(peer, wrong);
      CHECK(is_refused(lower, peer));
    }
    Rank higher(1, pair.peers, pair.higher);
    CHECK(do_meet(lower, higher));
  }

  TEST_CASE("peer meeting: a caller that replays recorded messages without the key is rejected") {
    const Pair pair;
    Rank lower(0, pair.peers, pair.lower);
    const auto hello = make_hello(1, 0);
    Digest seen{};  // a rank's proof on another connection
    {
      const Socket rank = call(pair);
      const auto answer = answer_to(hello, lower, rank);
      CHECK(are_equal(answer.proof, prove(Side::listener, kKey, hello, answer.hello)));
      seen = prove(Side::caller, kKey, hello, answer.hello);
    }
    for (const int attempt : {0, 1, 2}) {
      CAPTURE(attempt);
      const Socket peer = call(pair);
      const auto answer = answer_to(hello, lower, peer);
      const Digest proofs[] = {prove(Side::caller, kOtherKey, hello, answer.hello), seen,
                               answer.proof};
      send_message(peer, proofs[attempt]);
      CHECK(is_refused(lower, peer));
    }
    Rank higher(1, pair.peers, pair.higher);
    CHECK(do_meet(lower, higher));
  }

  TEST_CASE("peer meeting: a new connection replaces the oldest silent one beyond the limit") {
    const Pair pair;
    Rank lower(0, pair.peers, pair.lower);
    std::vector<Socket> silent;
    for (std::size_t i = 0; i < kUnauthenticatedMax + 10; ++i) silent.push_back(call(pair));
    lower.work(10ms);
    CHECK(lower.meeting.wanted().size() == kUnauthenticatedMax);  // the listener is not among them
    CHECK(is_refused(lower, silent.front()));
    Rank higher(1, pair.peers, pair.higher);
    CHECK(do_meet(lower, higher));
  }

  TEST_CASE("peer meeting: connections that have sent a hello are kept until authenticated") {
    const Pair pair;
    Rank lower(0, pair.peers, pair.lower);
    std::vector<Socket> callers;
    std::vector<Answer> answers;
    const auto hello = make_hello(1, 0);
    for (std::size_t i = 0; i < kUnauthenticatedMax; ++i) {
      callers.push_back(call(pair));
      answers.push_back(answer_to(hello, lower, callers.back()));
    }
    const Socket late = call(pair);
    lower.work(10ms);
    send_message(callers.front(), prove(Side::caller, kKey, hello, answers.front().hello));
    bool is_met = false;
    const auto deadline = Deadline::after(20s);
    while (!is_met && !deadline.passed()) is_met = !lower.work(10ms).empty();
    CHECK(is_met);
  }

  TEST_CASE("peer meeting: a rank that was disconnected for a late hello connects again") {
    constexpr int kRanks = static_cast<int>(kUnauthenticatedMax) + 6;
    const Pair pair;
    const std::vector<PeerAddress> peers(kRanks + 1, pair.peers[0]);
    Rank lower(0, peers, pair.lower);
    std::vector<std::unique_ptr<Rank>> ranks;
    for (int rank = 1; rank <= kRanks; ++rank) {
      ranks.push_back(std::make_unique<Rank>(rank, peers, pair.higher));
      ranks.back()->meeting.call(0);
    }
    const auto dropping = Deadline::after(20s);
    while (is_connected(*ranks.front()) && !dropping.passed()) lower.work(10ms);
    int met = 0;
    const auto deadline = Deadline::after(20s);
    while (met < kRanks && !deadline.passed()) {
      lower.work(1ms);
      for (auto& rank : ranks) {
        met += static_cast<int>(rank->work({}).size());
        REQUIRE(rank->meeting.unreachable().empty());
      }
    }
    CHECK(met == kRanks);
  }

  TEST_CASE("peer meeting: a listener that closes every connection is finally unreachable") {
    const Pair pair;
    Rank higher(1, pair.peers, pair.higher);
    higher.meeting.call(0);
    const auto deadline = Deadline::after(20s);
    while (higher.meeting.unreachable().empty() && !deadline.passed()) {
      accept_from(pair.lower.socket.fd());
      higher.work(10ms);
    }
    CHECK(higher.meeting.unreachable().size() == 1);
  }

  TEST_CASE("peer meeting: a listener without the key is rejected") {
    const Pair pair;
    Rank lower(0, pair.peers, pair.lower, kOtherKey);
    Rank higher(1, pair.peers, pair.higher);
    CHECK_FALSE(do_meet(lower, higher));
    REQUIRE(higher.meeting.unreachable().size() == 1);
    CHECK(higher.meeting.unreachable()[0].peer == 0);
    CHECK(higher.meeting.unreachable()[0].why.find("not of this group") != std::string::npos);
  }

  TEST_CASE("peer meeting: all addresses of a rank are tried and named in the error") {
    Pair pair;
    pair.peers[0].addresses = {"nowhere", "127.0.0.1"};
    {
      Rank lower(0, pair.peers, pair.lower);
      Rank higher(1, pair.peers, pair.higher);
      CHECK(do_meet(lower, higher));
    }
    pair.lower.socket.close();
    Rank lower(0, pair.peers, pair.lower);
    Rank higher(1, pair.peers, pair.higher);
    CHECK_FALSE(do_meet(lower, higher));
    REQUIRE(higher.meeting.unreachable().size() == 1);
    CHECK(higher.meeting.unreachable()[0].why.find("cannot be reached at nowhere or 127.0.0.1") ==
          0);
  }
}

}  // namespace peer_meeting_test
