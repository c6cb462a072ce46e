// A LibTorch program under the launcher: killed workers do not change the result.
#include "tests/support/json_lines.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <csignal>
#include <map>
#include <string>
#include <vector>

namespace libtorch_spirals_test {

using ddprun::test::in_bin;
using ddprun::test::Program;
using ddprun::test::read_json_lines;
using ddprun::test::TemporaryFolder;
using ddprun::test::wait_until;

namespace {

constexpr int kStepsPerEpoch = 50;
constexpr int kEpochs = 30;        // enough to learn the task
constexpr int kEndless = 1000000;  // epochs of a run that is stopped

/// Restarts and runs that resume from a checkpoint append to their metrics; each run here has its
/// own file unless it continues another.
std::string metrics_of(const TemporaryFolder& folder, int run = 0) {
  return folder / "metrics" + std::to_string(run);
}

std::vector<std::string> training(const TemporaryFolder& folder, int workers, int max_restarts,
                                  int epochs = kEpochs, int run = 0) {
  return {in_bin("ddprun"),
          "--nproc_per_node=" + std::to_string(workers),
          "--max_restarts=" + std::to_string(max_restarts),
          "--events=" + (folder / "events"),
          in_bin("libtorch_spirals"),
          "--epochs=" + std::to_string(epochs),
          "--samples=3000",
          "--global_batch_size=60",
          "--checkpoint_dir=" + (folder / "checkpoints"),
          "--checkpoint_every=20",
          "--metrics=" + metrics_of(folder, run)};
}

/// The last step of this attempt; 0 before the first step.
int last_step(const TemporaryFolder& folder, int attempt) {
  int step = 0;
  int current = 0;
  for (const auto& line : read_json_lines(metrics_of(folder))) {
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

/// The loss of each step of several runs; a repeated step must have the same loss to the last
/// digit.
std::map<int, double> losses_of(const TemporaryFolder& folder, int runs) {
  std::map<int, double> losses;
  for (int run = 0; run < runs; ++run) {
    for (const auto& line : read_json_lines(metrics_of(folder, run))) {
      if (line.at("event") != "step") continue;
      const auto [entry, is_new] = losses.emplace(line.at("step"), line.at("loss"));
      CHECK(entry->second == line.at("loss"));
    }
  }
  return losses;
}

nlohmann::json end_of(const TemporaryFolder& folder, int run = 0) {
  const auto lines = read_json_lines(metrics_of(folder, run));
  REQUIRE_FALSE(lines.empty());
  REQUIRE(lines.back().at("event") == "end");
  return lines.back();
}

/// An endless run whose workers are killed at given steps and which is then stopped: no kill is too
/// late, however slow this process is. Returns the last step.
int run_with_kills(const TemporaryFolder& folder, const std::vector<int>& kill_after) {
  const int kills = static_cast<int>(kill_after.size());
  Program run(training(folder, 2, kills, kEndless));
  for (int attempt = 0; attempt < kills; ++attempt) {
    CAPTURE(attempt);
    const int step = kill_after[static_cast<std::size_t>(attempt)];
    REQUIRE(wait_until([&] { return last_step(folder, attempt) >= step; }));
    const pid_t victim = pid_of(folder, attempt, attempt % 2);
    REQUIRE(victim > 0);
    REQUIRE(::kill(victim, SIGKILL) == 0);
  }
  REQUIRE(wait_until([&] { return last_step(folder, kills) > kill_after.back(); }));
  run.signal(SIGTERM);
  run.wait();
  CHECK(run.leaves_no_process());
  return last_step(folder, kills);
}

void run_to_the_end(const TemporaryFolder& folder, int epochs, int run) {
  Program program(training(folder, 2, 0, epochs, run));
  const int exit_code = program.wait();
  INFO(program.output());
  REQUIRE(exit_code == 0);
}

/// Epochs that end later than this step, and in which the loss decreases.
int epochs_beyond(int step) {
  return std::max(kEpochs, step / kStepsPerEpoch + 1);
}

}  // namespace

TEST_SUITE("LibTorch's trainer") {
  TEST_CASE("libtorch_spirals: the result is bitwise the same if workers are killed") {
    const TemporaryFolder disturbed;
    const int epochs = epochs_beyond(run_with_kills(disturbed, {25, 150, 400}));
    run_to_the_end(disturbed, epochs, 1);

    const TemporaryFolder undisturbed;
    run_to_the_end(undisturbed, epochs, 0);
    CHECK(end_of(undisturbed).at("accuracy") > 0.95);
    const auto expected = losses_of(undisturbed, 1);
    CHECK(expected.size() == static_cast<std::size_t>(epochs * kStepsPerEpoch));
    CHECK(losses_of(disturbed, 2) == expected);
    CHECK(end_of(disturbed, 1).at("parameters_hash") == end_of(undisturbed).at("parameters_hash"));
  }

  TEST_CASE("libtorch_spirals: a run can be resumed with another number of workers") {
    const TemporaryFolder folder;
    Program first(training(folder, 3, 0, kEndless));
    REQUIRE(wait_until([&] { return last_step(folder, 0) >= 100; }));
    first.signal(SIGTERM);
    first.wait();
    const std::string is_new = "directory " + (folder / "checkpoints") + " is new";
    CHECK(first.output().find(is_new) != std::string::npos);
    Program second(training(folder, 1, 0, epochs_beyond(last_step(folder, 0))));
    const int exit_code = second.wait();
    INFO(second.output());
    CHECK(exit_code == 0);
    CHECK(second.output().find(is_new) == std::string::npos);
    const auto lines = read_json_lines(metrics_of(folder));
    CHECK(lines.front().at("workers") == 3);
    const auto resumed = std::find_if(lines.begin() + 1, lines.end(),
                                      [](const auto& line) { return line.at("event") == "start"; });
    REQUIRE(resumed != lines.end());
    CHECK(resumed->at("workers") == 1);
    CHECK(resumed->at("step") >= 80);  // the last step that was certainly saved
    CHECK(end_of(folder).at("accuracy") > 0.95);
  }
}

}  // namespace libtorch_spirals_test
