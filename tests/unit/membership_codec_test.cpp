#include "rendezvous/membership/codec.hpp"
#include "rendezvous/membership/node_order.hpp"

#include <doctest/doctest.h>

#include <limits>
#include <random>

namespace membership_codec_test {

using namespace ddprun::membership;

namespace {

const Failure kFailure{
    .rank = 7,
    .is_victim = true,
    .ran_seconds = 1.25,
    .description = "rank 7 failed",
    .node = "b",
    .exit = WorkerExited{.attempt = 2,
                         .rank = 7,
                         .local_rank = 1,
                         .pid = 4711,
                         .node = "b",
                         .exit_code = 3,
                         .signal = 11,
                         .was_stopped = true,
                         .was_forwarded = true,
                         .is_out_of_memory = true,
                         .peak_memory_bytes = std::int64_t{5} << 30,
                         .ran_seconds = 1.25,
                         .ended_at = std::chrono::sys_days(std::chrono::year(2026) / 11 / 21),
                         .core_file = "/tmp/core",
                         .error_message = std::string("\0{}", 3),
                         .error_traceback = "t",
                         .error_code = ddprun::Errc::internal,
                         .error_time = std::chrono::sys_days(std::chrono::year(2026) / 11 / 20),
                         .last_lines = {"first", "\xff"},
                         .hint = "h",
                         .log_folder = "/logs/7",
                         .ended_before = "before",
                         .hung = "stopped",
                         .was_started = false,
                         .still_running = ""}};

const ddprun::control::RankFlights kFlights{
    .rank = 7,
    .worker = {.groups = {{.name = "default",
                           .rank = 1,
                           .size = 2,
                           .members = {3, 7},
                           .state = ddprun::control::GroupState::left,
                           .entered = 2,
                           .flights = {{.number = 1,
                                        .is_message = true,
                                        .call = "recv(1 x int32, rank 2, tag 7)",
                                        .bytes = 4,
                                        .state = ddprun::control::FlightState::failed,
                                        .entered_ago = std::chrono::seconds(5),
                                        .ended_ago = std::chrono::nanoseconds(1)}}}},
               .unrecorded_groups = 3,
               .damage = "the size of group 0 is 0"}};

const StacksTaken kStacks{.attempt = 3,
                          .rank = 4,
                          .same = {5, 7},
                          .pid = 70,
                          .reason = "during a hang",
                          .means = {"py-spy"},
                          .problems = {"gdb: refused"},
                          .lines = {"Thread 70", "  load (train.py:4)"},
                          .was_ended = true};

const std::vector<NodeMessage> kFromNodes = {
    Join{.run_id = "r",
         .name = "node1",
         .instance = 0xFEDC'BA98'7654'3210,
         .connection = 2,
         .node_rank = 3,
         .local_world_size = 8,
         .role = "trainer",
         .nodes_min = 1,
         .nodes_max = 4,
         .max_restarts = 2,
         .is_host = true,
         .config_hash = "85944171f73967e8",
         .command = "train.py --lr 0.1",
         .last_round = 5,
         .restarts_used = 1,
         .probe = {.host = "10.0.0.1", .port = 40'000}},
    Heartbeat{77, 3, {std::chrono::milliseconds(4000), 1000}},
    WorkersFailing{3, "rank 1 is dying", true},
    WorkersEnded{.round = 3,
                 .not_started = "x",
                 .failures = {kFailure, kFailure},
                 .early_exits = {kFailure},
                 .flights = {kFlights}},
    Leave{"was asked to stop", 15},
    Probed{7, {0, 3}},
    HangNotice{.round = 3,
               .time = std::chrono::milliseconds(5000),
               .is_certain = true,
               .ends_round = true,
               .ranks = {{1, "sleeps"}, {2, "computes"}},
               .connections = {{1, "10.0.0.2:4711", std::chrono::milliseconds(4000), 5}}},
    StacksNotice{.round = 3, .stacks = {kStacks, {.rank = 9}}},
    SlowRankNotice{
        .round = 3, .rank = 4, .is_slow = true, .factor = 1.5, .seconds = 20, .doing = "computes"},
};

const std::vector<CoordinatorMessage> kFromCoordinator = {
    Welcome{std::chrono::milliseconds(1500), "odd"},
    Refused{"no", "{}"},
    HeartbeatAnswer{78, 3, {std::chrono::milliseconds(5000)}},
    Waiting{"1 node"},
    Waiting{"a cannot reach b", true},
    Probe{.number = 7,
          .timeout = std::chrono::milliseconds(2000),
          .peers = {{"10.0.0.1", 40'000}, {}}},
    RoundFormed{.round = 4,
                .restarts_used = 2,
                .nodes = {{"a", "x", 2, "", true}, {"b", "y", 1, "10.0.0.2"}},
                .node_rank = 1},
    HangNotice{.round = 3, .node = "b", .has_ended = true, .ranks = {{1, "sleeps"}}},
    StacksNotice{.round = 3, .node = "b", .stacks = {kStacks}},
    SlowRankNotice{.round = 3, .node = "b", .rank = 4, .peer = "c"},
    StopWorkers{4, "node b is lost"},
    StopWorkers{5, "node c has joined", true},
    StopWorkers{6, "node a was asked to stop", true, 15},
    Finish{{.result = RunResult::failed,
            .rounds = 2,
            .reason = "rank 7 failed",
            .signal = 2,
            .failures = {kFailure},
            .flights = {{.rank = 0}, kFlights}}},
};

template <typename Message>
void check_both_ways(const std::vector<Message>& messages, std::size_t piece) {
  std::string bytes;
  for (const auto& message : messages) append_message(bytes, message);
  MessageReader<Message> reader;
  std::vector<Message> read;
  for (std::size_t at = 0; at < bytes.size(); at += piece) {
    reader.feed(std::string_view(bytes).substr(at, piece));
    while (auto message = reader.next()) read.push_back(*message);
  }
  CHECK(read == messages);
  CHECK_FALSE(reader.is_malformed());
}

bool is_refused(const std::string& bytes) {
  MessageReader<NodeMessage> reader;
  reader.feed(bytes);
  while (reader.next()) {
  }
  return reader.is_malformed();
}

}  // namespace

TEST_SUITE("membership codec") {
  TEST_CASE("membership codec: every message is decoded for any size of reads") {
    for (const std::size_t piece : {1, 3, 64, 1 << 20}) {
      check_both_ways(kFromNodes, piece);
      check_both_ways(kFromCoordinator, piece);
    }
  }

  TEST_CASE("membership codec: invalid lengths are rejected before allocation") {
    CHECK(is_refused(std::string("\xff\xff\xff\xff", 4)));
    CHECK(is_refused(std::string("\0\0\0\0", 4)));
    const auto most = static_cast<std::uint32_t>(kMessageBytesMax);
    std::string bytes(4, '\0');
    for (int i = 0; i < 4; ++i)
      bytes[static_cast<std::size_t>(i)] = static_cast<char>((most + 1) >> (8 * i));
    CHECK(is_refused(bytes));
  }

  TEST_CASE("membership codec: truncated or too long or unknown messages are rejected") {
    std::string bytes;
    append_message(bytes, kFromNodes[2]);
    auto shorter = bytes;
    shorter.pop_back();
    shorter[0] = static_cast<char>(shorter[0] - 1);
    CHECK(is_refused(shorter));
    auto longer = bytes + "x";
    longer[0] = static_cast<char>(longer[0] + 1);
    CHECK(is_refused(longer));
    auto unknown = bytes;
    unknown[4] = 99;
    CHECK(is_refused(unknown));
  }

  TEST_CASE("membership codec: notices with invalid numbers are rejected") {
    const double infinite = std::numeric_limits<double>::infinity();
    for (const auto& message :
         {NodeMessage(HangNotice{.ranks = {{-1, "sleeps"}}}),
          NodeMessage(HangNotice{.connections = {{.rank = -1}}}),
          NodeMessage(HangNotice{.connections = {{.retransmissions = -1}}}),
          NodeMessage(StacksNotice{.stacks = {{.rank = -1}}}),
          NodeMessage(StacksNotice{.stacks = {{.same = {-1}}}}),
          NodeMessage(SlowRankNotice{.rank = -1}), NodeMessage(SlowRankNotice{.factor = infinite}),
          NodeMessage(SlowRankNotice{.seconds = infinite})}) {
      std::string bytes;
      append_message(bytes, message);
      CAPTURE(message.index());
      CHECK(is_refused(bytes));
    }
  }

  TEST_CASE("membership codec: invalid numbers are rejected") {
    const auto is_refused_as = [](const NodeMessage& message) {
      std::string bytes;
      append_message(bytes, message);
      return is_refused(bytes);
    };
    const auto failed = [](int rank, double ran_seconds) {
      return WorkersEnded{.failures = {{.rank = rank, .ran_seconds = ran_seconds}}};
    };
    CHECK_FALSE(is_refused_as(Leave{"", kSignalMax}));
    CHECK(is_refused_as(Leave{"", kSignalMax + 1}));
    CHECK(is_refused_as(Leave{"", -1}));
    const auto beat = [](int share) { return Heartbeat{1, 0, {.work_share = share}}; };
    for (const int share : {-1, 1, kWholeWorkShare}) CHECK_FALSE(is_refused_as(beat(share)));
    for (const int share : {-2, 0, kWholeWorkShare + 1}) CHECK(is_refused_as(beat(share)));
    CHECK_FALSE(is_refused_as(failed(0, 1e300)));
    CHECK(is_refused_as(failed(-1, 0)));
    CHECK(is_refused_as(failed(0, -1)));
    CHECK(is_refused_as(failed(0, std::numeric_limits<double>::infinity())));
    CHECK(is_refused_as(failed(0, std::numeric_limits<double>::quiet_NaN())));
    const auto exited = [](const WorkerExited& exit) {
      return WorkersEnded{.failures = {{.exit = exit}}};
    };
    CHECK_FALSE(is_refused_as(exited({.signal = kSignalMax})));
    CHECK(is_refused_as(exited({.signal = kSignalMax + 1})));
    CHECK(is_refused_as(exited({.rank = -1})));
    CHECK(is_refused_as(exited({.ran_seconds = std::numeric_limits<double>::infinity()})));
    const auto recorded = [](const ddprun::control::GroupFlightRecord& group) {
      return WorkersEnded{.flights = {{.worker = {.groups = {group}}}}};
    };
    using std::chrono::nanoseconds;
    CHECK_FALSE(is_refused_as(recorded({.flights = {{.entered_ago = nanoseconds::max()}}})));
    CHECK(is_refused_as(recorded({.flights = {{.entered_ago = nanoseconds(-1)}}})));
    CHECK(is_refused_as(recorded({.flights = {{.ended_ago = nanoseconds(1)}}})));
    CHECK(is_refused_as(recorded({.rank = 1})));
    CHECK(is_refused_as(recorded({.state = static_cast<ddprun::control::GroupState>(4)})));
    CHECK(is_refused_as(WorkersEnded{.flights = {{.rank = -1}}}));
    CHECK(is_refused_as(WorkersEnded{.flights = {{.worker = {.unrecorded_groups = -1}}}}));
    const auto most = static_cast<std::uint32_t>(kProbedNodesMax);
    CHECK_FALSE(is_refused_as(Probed{1, std::vector<std::uint32_t>(most)}));
    CHECK(is_refused_as(Probed{1, std::vector<std::uint32_t>(most + 1)}));
    CHECK(is_refused_as(Join{.probe = {.host = std::string(kAddressBytesMax + 1, '1')}}));
    const CoordinatorMessage from_coordinator[] = {Finish{{.rounds = -1}},
                                                   StopWorkers{0, "", true, kSignalMax + 1},
                                                   StopWorkers{0, "", true, -1}};
    for (const auto& message : from_coordinator) {
      std::string bytes;
      append_message(bytes, message);
      MessageReader<CoordinatorMessage> reader;
      reader.feed(bytes);
      CHECK_FALSE(reader.next());
      CHECK(reader.is_malformed());
    }
  }

  TEST_CASE("membership codec: random bytes are handled safely") {
    std::mt19937 random(5);
    std::string good;
    for (const auto& message : kFromNodes) append_message(good, message);
    for (int round = 0; round < 20'000; ++round) {
      auto bytes = good;
      const int changes = 1 + static_cast<int>(random() % 4);
      for (int i = 0; i < changes; ++i)
        bytes[random() % bytes.size()] = static_cast<char>(random());
      is_refused(bytes);
    }
  }

  TEST_CASE("membership codec: nodes are ordered by requested and previous rank and name") {
    CHECK(natural_less("node2", "node10"));
    CHECK_FALSE(natural_less("node10", "node2"));
    CHECK(natural_less("node", "node1"));
    CHECK(natural_less("a9b2", "a10a1"));
    CHECK(natural_less("10.0.0.9", "10.0.0.10"));
    CHECK(natural_less("node01", "node1") != natural_less("node1", "node01"));
    CHECK_FALSE(natural_less("x", "x"));
    const std::vector<OrderedNode> nodes = {{.name = "node10"},
                                            {.name = "node2"},
                                            {.previous_rank = 1, .name = "node1"},
                                            {.previous_rank = 0, .name = "node9"},
                                            {.wanted_rank = 1, .name = "node30"},
                                            {.wanted_rank = 0, .name = "node40"}};
    CHECK(order_nodes(nodes, 6) == std::vector<std::size_t>{5, 4, 3, 2, 1, 0});
    // With fewer ranks: nodes of the previous round come first, then by time of arrival.
    CHECK(order_nodes(nodes, 3) == std::vector<std::size_t>{3, 2, 0});
  }
}

}  // namespace membership_codec_test
