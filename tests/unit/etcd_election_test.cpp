#include "rendezvous/etcd/election.hpp"
#include "rendezvous/etcd/record_bounds.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace etcd_election_test {

using namespace ddprun;
using namespace ddprun::etcd;
using ddprun::etcd::Problem;
using membership::Join;
using membership::RunOutcome;
using membership::RunRecord;

namespace {

const RunKeys kKeys("/ddprun", "run");

Join self() {
  return {.run_id = "run", .name = "a", .nodes_min = 1, .nodes_max = 3, .max_restarts = 2};
}

RunRecord record() {
  return {.round = 4,
          .rounds_formed = 5,
          .nodes = {{"b", 0xFEDC'BA98'7654'3210}, {"a\"\\\n", 0}},
          .host = {"b", 0xFEDC'BA98'7654'3210},
          .restarts = 1,
          .fast_failures = 1,
          .lease = std::chrono::milliseconds(2500),
          .since_round = std::chrono::milliseconds(5678),
          .restart_ages = {std::chrono::milliseconds(1234)},
          .nodes_min = 1,
          .nodes_max = 3,
          .max_restarts = 2,
          .config_hash = "abc"};
}

RunOutcome outcome() {
  return {.result = membership::RunResult::failed,
          .rounds = 2,
          .reason = "a worker failed",
          .signal = 0,
          .failures = {{.rank = 3,
                        .is_victim = true,
                        .ran_seconds = 1.5,
                        .description = "rank 3 failed",
                        .node = "b",
                        .exit = membership::WorkerExited{.pid = 7}}},
          .flights = {{.rank = 3, .worker = {.unrecorded_groups = 2}}}};
}

TransactionAnswer answer(const std::string& key, const std::string& value) {
  return {.has_succeeded = true,
          .revision = 9,
          .keys = {{.key = key, .value = value, .created = 5, .lease = 7}}};
}

struct Row {
  std::string what;
  EtcdSnapshot snapshot;
  Revision tried;
  bool may_try_again;
  Move move;
};

const Holder kHolder{.node = "b", .endpoint = {"10.0.0.2", 29'500}, .created = 5, .lease = 7};
const GoTo kToHolder{.endpoint = {"10.0.0.2", 29'500}, .created = 5};

RunRecord fitting() {
  auto fits = record();
  fits.config_hash.clear();
  return fits;
}

const Row kRows[] = {
    {"nothing is there", {.revision = 9}, 0, true, Campaign{}},
    {"somebody was elected", {.revision = 9, .holder = kHolder}, 0, false, kToHolder},
    {"somebody else than before", {.revision = 9, .holder = kHolder}, 3, false, kToHolder},
    {"the one that was lost", {.revision = 9, .holder = kHolder}, 5, false, AwaitChange{10}},
    {"the one that was lost, later", {.revision = 9, .holder = kHolder}, 5, true, kToHolder},
    {"a key that is not accepted prevents an election",
     {.revision = 9, .record = fitting(), .is_holder_ignored = true},
     0,
     true,
     AwaitRemoval{10}},
    {"a run goes on", {.revision = 9, .record = fitting()}, 5, false, Campaign{}},
    {"it has ended", {.revision = 9, .outcome = outcome()}, 0, true, AcceptOutcome{outcome()}},
    {"it has just ended",
     {.revision = 9, .holder = kHolder, .outcome = outcome()},
     0,
     true,
     AcceptOutcome{outcome()}},
};

}  // namespace

TEST_SUITE("etcd election") {
  TEST_CASE("etcd election: an agent's next step follows from the observed keys") {
    for (const auto& row : kRows) {
      CAPTURE(row.what);
      CHECK((decide_move(row.snapshot, self(), row.tried, row.may_try_again) == row.move));
    }
  }

  TEST_CASE("etcd election: a host resigns if its own agent cannot connect for 5 s") {
    using std::chrono::milliseconds;
    const std::chrono::steady_clock::time_point elected(std::chrono::hours(1));
    struct Beginning {
      milliseconds since_elected;
      bool has_nodes;
      int failures;
      bool is_unreachable;
    };
    for (const auto& row : {Beginning{milliseconds(5000), false, 3, true},
                            Beginning{milliseconds(4999), false, 3, false},
                            Beginning{milliseconds(5000), false, 2, false},
                            Beginning{milliseconds(5000), true, 3, false}}) {
      CHECK(is_unreachable({elected, row.has_nodes, row.failures}, elected + row.since_elected) ==
            row.is_unreachable);
    }
  }

  TEST_CASE("etcd election: a node with different settings does not take over") {
    const EtcdSnapshot snapshot{.revision = 9, .record = record()};
    const auto move = decide_move(snapshot, self(), 0, true);
    REQUIRE(std::holds_alternative<AcceptOutcome>(move));
    const auto& accepted = std::get<AcceptOutcome>(move).outcome;
    CHECK(accepted.result == membership::RunResult::no_rendezvous);
    CHECK(accepted.reason.rfind(
              "this node was refused: the node that joins has no configuration file", 0) == 0);
    CHECK_FALSE(std::get<AcceptOutcome>(move).has_other_config);
  }

  TEST_CASE("etcd election: a node with another configuration gets the differing setting") {
    auto other = self();
    other.config_hash = "another";
    const auto move = decide_move({.revision = 9, .record = record()}, other, 0, true);
    REQUIRE(std::holds_alternative<AcceptOutcome>(move));
    CHECK(std::get<AcceptOutcome>(move).has_other_config);
  }
}

TEST_SUITE("etcd keys") {
  TEST_CASE("etcd keys: each run name has distinct keys") {
    CHECK(kKeys.coordinator() == "/ddprun/run/coordinator");
    CHECK(kKeys.record() == "/ddprun/run/record");
    CHECK(kKeys.outcome() == "/ddprun/run/outcome");
    CHECK(kKeys.config() == "/ddprun/run/config");
    CHECK(kKeys.state().end == "/ddprun/run0");
    for (const auto& key : {kKeys.coordinator(), kKeys.record(), kKeys.outcome()}) {
      CHECK(kKeys.state().key <= key);
    }
    CHECK(kKeys.config() < kKeys.state().key);
    CHECK(RunKeys("/p", "a/b%").coordinator() == "/p/a%2Fb%25/coordinator");
  }

  TEST_CASE("etcd keys: values round-trip") {
    const auto seen = [](const std::string& key, const std::string& value) {
      return std::get<EtcdSnapshot>(read_snapshot(answer(key, value), kKeys));
    };
    CHECK(seen(kKeys.coordinator(), holder_text("b", kHolder.endpoint)).holder == kHolder);
    CHECK(seen(kKeys.record(), record_text(record())).record == record());
    CHECK(seen(kKeys.outcome(), outcome_text(outcome())).outcome == outcome());
    CHECK(seen("/ddprun/run/other", "whatever") == EtcdSnapshot{.revision = 9});
  }

  TEST_CASE("etcd keys: every result of a run can be stored") {
    for (const auto result :
         {membership::RunResult::succeeded, membership::RunResult::not_started,
          membership::RunResult::interrupted, membership::RunResult::no_rendezvous}) {
      const RunOutcome ended{.result = result, .signal = 15};
      const auto text = outcome_text(ended);
      CHECK(std::get<EtcdSnapshot>(read_snapshot(answer(kKeys.outcome(), text), kKeys)).outcome ==
            ended);
    }
  }

  TEST_CASE("etcd keys: a too large outcome is stored without its least important parts") {
    const auto kept = [](const RunOutcome& whole) {
      const auto text = outcome_text(whole);
      CHECK(text.size() <= kOutcomeBytesMax);
      return *std::get<EtcdSnapshot>(read_snapshot(answer(kKeys.outcome(), text), kKeys)).outcome;
    };
    auto ended = outcome();
    const std::string much(kOutcomeBytesMax / 2, 'x');
    const membership::WorkerExited large{.error_message = much};
    ended.failures = {{.rank = 1, .exit = large}, {.rank = 2, .exit = membership::WorkerExited{}}};
    ended.flights = {{.worker = {.damage = much + much}}};
    auto expected = ended;
    expected.flights.clear();
    CHECK(kept(ended) == expected);
    ended.failures.push_back({.rank = 3, .exit = large});
    expected = ended;
    expected.flights.clear();
    expected.failures[2].exit.reset();
    CHECK(kept(ended) == expected);
    ended.failures[0].exit->error_message = much + much + much;
    for (auto& failure : expected.failures) failure.exit.reset();
    CHECK(kept(ended) == expected);
  }

  TEST_CASE("etcd keys: bytes that are not UTF-8 are replaced") {
    CHECK(holder_text("\xff", {"h", 1}).find("\xef\xbf\xbd") != std::string::npos);
  }

  TEST_CASE("etcd keys: an invalid value is reported with its key") {
    auto cut = record_text(record());
    cut.resize(cut.size() / 2);
    const auto changed = [](std::string text, const std::string& from, const std::string& to) {
      REQUIRE(text.find(from) != std::string::npos);
      return text.replace(text.find(from), from.size(), to);
    };
    const auto text = record_text(record());
    const std::string deep(1'000'000, '[');  // limit of a response of etcd
    const std::string end(deep.size(), ']');
    const std::vector<std::pair<std::string, std::string>> bad = {
        {kKeys.coordinator(), ""},
        {kKeys.coordinator(), "{}"},
        {kKeys.coordinator(), R"({"version":6,"node":"b","host":"","port":1})"},
        {kKeys.coordinator(), R"({"version":6,"node":"b","host":"h","port":65536})"},
        {kKeys.coordinator(), R"({"version":6,"node":"b","host":"h","port":"1"})"},
        {kKeys.record(), cut},
        {kKeys.record(), changed(text, "\"version\":6", "\"version\":1")},
        {kKeys.record(), changed(text, "\"round\":4", "\"round\":-2")},
        {kKeys.record(), changed(text, "\"round\":4", "\"round\":18446744073709551615")},
        {kKeys.record(), changed(text, "\"nodes\":[", "\"nodes\":[7,")},
        {kKeys.record(), changed(text, "[1234]", "[-1]")},
        {kKeys.record(), changed(text, "[1234]", deep + end)},
        {kKeys.record(), changed(text, "\"host\":{", "\"host\":7,\"other\":{")},
        {kKeys.record(), changed(text, "\"fedcba9876543210\"", "\"fedcba98765432100\"")},
        {kKeys.record(), changed(text, "\"fedcba9876543210\"", "\"0x1\"")},
        {kKeys.record(), changed(text, "\"fedcba9876543210\"", "\"\"")},
        {kKeys.record(), changed(text, "\"fedcba9876543210\"", "1")},
        {kKeys.outcome(), R"({"version":6,"finish":"c3Vuaw=="})"},
        {kKeys.outcome(), changed(outcome_text(outcome()), "\"finish\":\"", "\"finish\":\"*")},
    };
    for (const auto& row : bad) {
      const auto& key = row.first;
      const auto& value = row.second;
      CAPTURE(value);
      const auto snapshot = read_snapshot(answer(key, value), kKeys);
      REQUIRE(std::holds_alternative<Problem>(snapshot));
      CHECK(std::get<Problem>(snapshot).text.find("etcd's key " + key) == 0);
    }
  }

  TEST_CASE("etcd keys: a damaged record is reported only if no other node can restore it") {
    const KeyValue record{.key = kKeys.record(), .value = "damaged", .created = 5, .lease = 8};
    const KeyValue coordinator{.key = kKeys.coordinator(),
                               .value = holder_text("b", kHolder.endpoint),
                               .created = 5,
                               .lease = 7};
    const KeyValue ended{.key = kKeys.outcome(), .value = outcome_text(outcome()), .created = 5};
    struct Row {
      std::vector<KeyValue> keys;
      LeaseId own_lease;
      bool is_problem;
    };
    for (const auto& row : {Row{{record}, 0, true}, Row{{coordinator, record}, 0, false},
                            Row{{coordinator, record}, 6, false},
                            Row{{coordinator, record}, 7, true}, Row{{record, ended}, 0, false}}) {
      const auto snapshot = read_snapshot({.revision = 9, .keys = row.keys}, kKeys, row.own_lease);
      CHECK(std::holds_alternative<Problem>(snapshot) == row.is_problem);
      if (!row.is_problem) CHECK_FALSE(std::get<EtcdSnapshot>(snapshot).record);
    }
  }

  TEST_CASE("etcd keys: a value of another version is reported with both versions") {
    const auto problem = [](const std::string& value) {
      return std::get<Problem>(read_snapshot(answer(kKeys.record(), value), kKeys)).text;
    };
    CHECK(problem(R"({"version":99,"round":{}})") ==
          "etcd's key /ddprun/run/record was written by another version of ddprun, which all nodes "
          "of a run must have (version 99 of its values, here 6); use another --rdzv_id, or delete "
          "the key if no run uses it");
    CHECK(problem("hello") ==
          "etcd's key /ddprun/run/record has a value that ddprun does not write; use another "
          "--rdzv_id, or delete the key if no run uses it");
  }
}

}  // namespace etcd_election_test
