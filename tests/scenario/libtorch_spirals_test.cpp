// A program on LibTorch under the launcher: workers that are killed change nothing.
#include "tests/support/json_lines.hpp"

#include <doctest/doctest.h>

#include <csignal>
#include <map>
#include <string>
#include <vector>

using ddprun::test::in_bin;
using ddprun::test::Program;
using ddprun::test::read_json_lines;
using ddprun::test::TemporaryFolder;
using ddprun::test::wait_until;

namespace {

constexpr int kSteps = 1500;

std::vector<std::string> training(const TemporaryFolder& folder, int workers, int max_restarts) {
  return {in_bin("ddprun"),
          "--nproc_per_node=" + std::to_string(workers),
          "--max_restarts=" + std::to_string(max_restarts),
          "--events=" + (folder / "events"),
          in_bin("libtorch_spirals"),
          "--epochs=30",
          "--samples=3000",
          "--global_batch_size=60",
          "--checkpoint_dir=" + (folder / "checkpoints"),
          "--checkpoint_every=20",
          "--metrics=" + (folder / "metrics")};
}

/// The last step of this attempt; 0 if there was none yet.
int last_step(const TemporaryFolder& folder, int attempt) {
  int step = 0;
  int current = 0;
  for (const auto& line : read_json_lines(folder / "metrics")) {
    if (line.at("event") == "start") current = line.at("attempt");
    if (line.at("event") == "step" && current == attempt) step = line.at("step");
  }
  return step;
}

pid_t pid_of(const TemporaryFolder& folder, int attempt, int rank) {
  for (const auto& event : read_json_lines(folder / "events")) {
    if (event.at("event") == "worker_started" && event.at("attempt") == attempt &&
        event.at("rank") == rank) {
      return event.at("pid");
    }
  }
  return 0;
}

/// The loss of each step; one that was done again must have come out as before, to the last digit.
std::map<int, double> losses_of(const TemporaryFolder& folder) {
  std::map<int, double> losses;
  for (const auto& line : read_json_lines(folder / "metrics")) {
    if (line.at("event") != "step") continue;
    const auto [entry, is_new] = losses.emplace(line.at("step"), line.at("loss"));
    CHECK(entry->second == line.at("loss"));
  }
  return losses;
}

nlohmann::json end_of(const TemporaryFolder& folder) {
  const auto lines = read_json_lines(folder / "metrics");
  REQUIRE_FALSE(lines.empty());
  REQUIRE(lines.back().at("event") == "end");
  return lines.back();
}

}  // namespace

TEST_SUITE("LibTorch's trainer") {
  TEST_CASE("killed workers change no bit of what LibTorch's trainer ends with") {
    const TemporaryFolder undisturbed;
    Program calm(training(undisturbed, 2, 0));
    const int calm_exit = calm.wait();
    INFO(calm.output());
    REQUIRE(calm_exit == 0);
    CHECK(end_of(undisturbed).at("accuracy") > 0.95);

    const TemporaryFolder disturbed;
    const std::vector<int> kill_after = {25, 150, 400};
    Program run(training(disturbed, 2, static_cast<int>(kill_after.size())));
    for (int attempt = 0; attempt < static_cast<int>(kill_after.size()); ++attempt) {
      CAPTURE(attempt);
      const int step = kill_after[static_cast<std::size_t>(attempt)];
      REQUIRE(wait_until([&] { return last_step(disturbed, attempt) >= step; }));
      const pid_t victim = pid_of(disturbed, attempt, attempt % 2);
      REQUIRE(victim > 0);
      REQUIRE(::kill(victim, SIGKILL) == 0);
    }
    const int exit_code = run.wait();
    INFO(run.output());
    CHECK(exit_code == 0);
    CHECK(run.leaves_no_process());
    const auto expected = losses_of(undisturbed);
    CHECK(expected.size() == kSteps);
    CHECK(losses_of(disturbed) == expected);
    CHECK(end_of(disturbed).at("parameters_hash") == end_of(undisturbed).at("parameters_hash"));
  }

  TEST_CASE("a run of LibTorch's trainer goes on with another number of workers") {
    const TemporaryFolder folder;
    Program first(training(folder, 3, 0));
    REQUIRE(wait_until([&] { return last_step(folder, 0) >= 100; }));
    first.signal(SIGTERM);
    first.wait();
    Program second(training(folder, 1, 0));
    const int exit_code = second.wait();
    INFO(second.output());
    CHECK(exit_code == 0);
    const auto lines = read_json_lines(folder / "metrics");
    CHECK(lines.front().at("workers") == 1);
    CHECK(lines.front().at("step") >= 80);  // the last one that was surely saved
    CHECK(end_of(folder).at("accuracy") > 0.95);
  }
}
