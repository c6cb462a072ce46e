// The trainer on several nodes with and without faults: real agents at loopback addresses, real
// workers, and their final parameters.
#include "tests/support/cluster.hpp"
#include "tests/support/json_lines.hpp"
#include "tests/support/temporary_folder.hpp"

#include <doctest/doctest.h>

#include <csignal>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace nodes_training_test {

using namespace ddprun::test;

namespace {

std::string trainer_in(const TemporaryFolder& folder, const std::string& more = "") {
  return "exec " + in_bin("trainer") + " --dataset=random --seed=3 --global_batch_size=48" +
         " --epochs=10 --checkpoint_every=10 --checkpoint_dir=" + (folder / "checkpoints") +
         " --metrics=" + (folder / "metrics") + " --ledger=" + (folder / "ledger") + " " + more;
}

/// Two nodes, with one worker and with two; all nodes write their events to `folder`.
struct TwoNodes {
  TwoNodes(const TemporaryFolder& folder, const std::string& nnodes, const std::string& script,
           int max_restarts = 0)
      : cluster(nnodes, script, {"--max_restarts=" + std::to_string(max_restarts)},
                "last_call_timeout=30,lease_timeout=5"),
        host(cluster.start(2, {"--nproc_per_node=1", "--events=" + (folder / "events2")})),
        other(cluster.start(3, {"--nproc_per_node=2", "--events=" + (folder / "events3")})) {}

  Cluster cluster;
  Program& host;
  Program& other;
};

nlohmann::json end_in(const TemporaryFolder& folder) {
  const auto lines = read_json_lines(folder / "metrics");
  REQUIRE_FALSE(lines.empty());
  REQUIRE(lines.back().at("event") == "end");
  return lines.back();
}

std::vector<nlohmann::json> starts_in(const TemporaryFolder& folder) {
  std::vector<nlohmann::json> starts;
  for (const auto& line : read_json_lines(folder / "metrics")) {
    if (line.at("event") == "start") starts.push_back(line);
  }
  return starts;
}

void await_step(const TemporaryFolder& folder, int step) {
  REQUIRE(wait_until([&] {
    for (const auto& line : read_json_lines(folder / "metrics")) {
      if (line.at("event") == "step" && line.at("step") >= step) return true;
    }
    return false;
  }));
}

pid_t pid_of(const std::string& events, int rank) {
  for (const auto& event : read_json_lines(events)) {
    if (event.at("event") == "worker_started" && event.at("rank") == rank) return event.at("pid");
  }
  return 0;
}

/// Number of uses of each sample in each epoch, by steps that count. Steps of an attempt after the
/// one that the next attempt resumed from do not count.
std::map<int, std::map<std::int64_t, int>> uses_in(const TemporaryFolder& folder, int ranks) {
  std::map<int, std::map<std::int64_t, int>> uses;
  const auto starts = starts_in(folder);
  for (int rank = 0; rank < ranks; ++rank) {
    std::size_t attempt = 0;
    for (const auto& line : read_json_lines(folder / ("ledger.rank" + std::to_string(rank)))) {
      if (line.contains("attempt")) {
        while (starts[attempt].at("step") != line.at("resumed_after_step")) ++attempt;
      } else if (attempt + 1 == starts.size() ||
                 line.at("step") <= starts[attempt + 1].at("step")) {
        for (const std::int64_t sample : line.at("samples")) ++uses[line.at("epoch")][sample];
      }
    }
  }
  return uses;
}

void check_that_all_are_used_once(const TemporaryFolder& folder, int ranks) {
  const std::size_t samples = starts_in(folder).at(0).at("settings").at("samples");
  const auto uses = uses_in(folder, ranks);
  CHECK(uses.size() == 10);
  for (const auto& [epoch, counts] : uses) {
    CHECK(counts.size() == samples);
    for (const auto& [sample, count] : counts) {
      if (count != 1) FAIL_CHECK("epoch ", epoch, " used sample ", sample, " ", count, " times");
    }
  }
}

}  // namespace

TEST_SUITE("nodes training") {
  TEST_CASE("nodes training: a killed worker does not change the result or the use of samples") {
    const TemporaryFolder undisturbed;
    TwoNodes calm(undisturbed, "2", trainer_in(undisturbed));
    const int calm_end = calm.host.wait();
    INFO(calm.host.output());
    REQUIRE(calm_end == 0);
    CHECK(calm.other.wait() == 0);

    const TemporaryFolder disturbed;
    TwoNodes run(disturbed, "2", trainer_in(disturbed), 1);
    await_step(disturbed, 15);
    const pid_t victim = pid_of(disturbed / "events3", 2);
    REQUIRE(victim > 0);
    REQUIRE(::kill(victim, SIGKILL) == 0);
    const int host_end = run.host.wait();
    INFO(run.host.output());
    CHECK(host_end == 0);
    CHECK(run.other.wait() == 0);
    CHECK(starts_in(disturbed).size() == 2);
    CHECK(end_in(disturbed).at("step") == end_in(undisturbed).at("step"));
    CHECK(end_in(disturbed).at("parameters_hash") == end_in(undisturbed).at("parameters_hash"));
    check_that_all_are_used_once(disturbed, 3);
    CHECK(run.host.leaves_no_process());
    CHECK(run.other.leaves_no_process());
  }

  TEST_CASE("nodes training: the result after a node loss equals that of an intended resize") {
    const TemporaryFolder disturbed;
    TwoNodes run(disturbed, "1:2", trainer_in(disturbed));
    await_step(disturbed, 15);
    run.other.signal(SIGKILL);
    const int host_end = run.host.wait();
    INFO(run.host.output());
    REQUIRE(host_end == 0);
    const auto starts = starts_in(disturbed);
    REQUIRE(starts.size() == 2);
    CHECK(starts[0].at("world_size") == 3);
    CHECK(starts[1].at("world_size") == 1);
    const int step = starts[1].at("step");
    CHECK(step >= 10);
    check_that_all_are_used_once(disturbed, 3);

    // The same history, with planned changes only.
    const TemporaryFolder planned;
    TwoNodes first(planned, "2", trainer_in(planned, "--max_steps=" + std::to_string(step)));
    REQUIRE(first.host.wait() == 0);
    REQUIRE(first.other.wait() == 0);
    const auto second = run_program(launch({"--nproc_per_node=1"}, trainer_in(planned)));
    INFO(second.output);
    CHECK(second.exit_code == 0);
    CHECK(end_in(planned).at("parameters_hash") == end_in(disturbed).at("parameters_hash"));
    CHECK(run.other.wait() == -SIGKILL);
    CHECK(run.other.leaves_no_process());
  }
}

}  // namespace nodes_training_test
