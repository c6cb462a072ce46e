// Values that a run writes to etcd fit into a request for any number of nodes.
#include "rendezvous/etcd/record_bounds.hpp"
#include "rendezvous/etcd/run_keys.hpp"
#include "rendezvous/membership/join_checks.hpp"
#include "rendezvous/membership/settings.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <limits>
#include <string>
#include <vector>

namespace etcd_record_bounds_test {

using namespace ddprun;
using namespace ddprun::etcd;
using membership::kNameBytesMax;

namespace {

/// The longest name of that character that a run of this number of nodes accepts.
std::string longest_name(int nodes, char character) {
  const membership::Settings settings{.nodes_max = nodes,
                                      .recorded_name_bytes_max = name_bytes_max(nodes)};
  std::string name;
  while (!membership::objection_to_name(name + character, settings)) name += character;
  return name;
}

/// With the maximum of every value.
membership::RunRecord record_of_nodes(std::size_t nodes, const std::string& name) {
  constexpr int kMany = membership::kRoundMax;
  constexpr std::uint64_t kInstance = std::numeric_limits<std::uint64_t>::max();
  constexpr std::chrono::milliseconds kCentury = std::chrono::hours(24 * 365 * 100);
  return {.round = kMany,
          .rounds_formed = kMany,
          .nodes = std::vector(nodes, membership::PastNode{name, kInstance}),
          .host = {name, kInstance},
          .restarts = kMany,
          .fast_failures = kMany,
          .lease = kCentury,
          .since_round = kCentury,
          .restart_ages = std::vector(std::size_t{kRestartAgesMax}, kCentury),
          .nodes_min = kMany,
          .nodes_max = kMany,
          .max_restarts = kMany,
          .config_hash = std::string(64, 'f')};
}

}  // namespace

TEST_SUITE("etcd record bounds") {
  TEST_CASE("etcd record bounds: a record of nodes with the longest names fits into a value") {
    for (const std::size_t nodes : {std::size_t{1}, std::size_t{600}, membership::kRoundNodesMax}) {
      for (const char character : {'n', '"', '\n', '\x7f', '\xff'}) {
        const auto name = longest_name(static_cast<int>(nodes), character);
        const auto bytes = record_text(record_of_nodes(nodes, name)).size();
        CHECK(bytes <= kRecordBytesMax);
      }
    }
    const auto most = static_cast<int>(membership::kRoundNodesMax);
    const auto name = longest_name(most, 'n');
    CHECK(name.size() < kNameBytesMax);
    const auto bytes = record_text(record_of_nodes(membership::kRoundNodesMax, name)).size();
    CHECK(bytes > kRecordBytesMax - kRecordBytesMax / 16);
  }

  TEST_CASE("etcd record bounds: small runs and runs without etcd allow any name") {
    CHECK(longest_name(600, '\n').size() == kNameBytesMax);
    const std::string name(kNameBytesMax, 'n');
    CHECK_FALSE(membership::objection_to_name(name, {.nodes_max = 1'000'000}));
  }

  TEST_CASE("etcd record bounds: a too long name is rejected with the limit and a remedy") {
    const membership::Settings settings{.nodes_max = 4096,
                                        .recorded_name_bytes_max = name_bytes_max(4096)};
    CHECK(membership::objection_to_name(std::string(200, 'n'), settings) ==
          "the node's name takes 200 bytes of what is recorded of the run in etcd (at most 184, so "
          "that 4096 nodes fit; set another with --local_addr)");
  }

  TEST_CASE("etcd record bounds: a stored outcome keeps the first of many long failures") {
    membership::RunOutcome outcome{.result = membership::RunResult::failed,
                                   .reason = std::string(2 * membership::kReasonBytesMax, '\n')};
    for (int rank = 0; rank < static_cast<int>(membership::kFailuresMax); ++rank) {
      outcome.failures.push_back(
          {.rank = rank,
           .ran_seconds = 1e300,
           .description = std::string(membership::kDescriptionBytesMax, '\x01'),
           .node = std::string(kNameBytesMax, '\x01')});
    }
    const auto text = outcome_text(outcome);
    CHECK(text.size() <= kOutcomeBytesMax);
    const RunKeys keys("/ddprun", "run");
    const TransactionAnswer answer{.keys = {{.key = keys.outcome(), .value = text}}};
    const auto read = std::get<EtcdSnapshot>(read_snapshot(answer, keys)).outcome;
    REQUIRE(read);
    CHECK(read->failures.size() > 60);
    CHECK(read->failures.front().rank == 0);
  }
}

}  // namespace etcd_record_bounds_test
