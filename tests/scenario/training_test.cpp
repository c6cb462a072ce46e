// Training under the launcher with and without kills: killed workers cost only time.
#include "tests/support/json_lines.hpp"
#include "tests/support/program.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <map>
#include <random>
#include <string>
#include <vector>

namespace training_test {

using ddprun::test::in_bin;
using ddprun::test::Program;
using ddprun::test::read_json_lines;
using ddprun::test::TemporaryFolder;
using ddprun::test::wait_until;

namespace {

constexpr int kWorkers = 4;
constexpr int kSamples = 60'000;  // Fashion-MNIST's training set
constexpr int kEpochs = 2;

std::vector<std::string> training(const TemporaryFolder& folder, int max_restarts) {
  return {in_bin("ddprun"),
          "--nproc_per_node=" + std::to_string(kWorkers),
          "--max_restarts=" + std::to_string(max_restarts),
          "--events=" + (folder / "events"),
          "trainer",
          "--epochs=" + std::to_string(kEpochs),
          "--checkpoint_dir=" + (folder / "checkpoints"),
          "--checkpoint_every=20",
          "--metrics=" + (folder / "metrics"),
          "--ledger=" + (folder / "ledger")};
}

/// The last completed step of rank 0 in this attempt; 0 before the first step.
int last_step(const TemporaryFolder& folder, int attempt) {
  int step = 0;
  int current = 0;
  for (const auto& line : read_json_lines(folder / "metrics")) {
    if (line.at("event") == "start") current = line.at("attempt");
    if (line.at("event") == "step" && current == attempt) step = line.at("step");
  }
  return step;
}

/// Process id of a rank in an attempt; 0 if it is not started.
pid_t pid_of(const TemporaryFolder& folder, int attempt, int rank) {
  for (const auto& event : read_json_lines(folder / "events")) {
    if (event.at("event") == "worker_started" && event.at("attempt") == attempt &&
        event.at("rank") == rank) {
      return event.at("pid");
    }
  }
  return 0;
}

nlohmann::json end_of(const TemporaryFolder& folder) {
  const auto lines = read_json_lines(folder / "metrics");
  REQUIRE_FALSE(lines.empty());
  REQUIRE(lines.back().at("event") == "end");
  return lines.back();
}

/// Number of uses of each sample in each epoch, by steps that no restart has undone.
std::map<int, std::vector<int>> uses_by_epoch(const TemporaryFolder& folder) {
  std::map<int, std::vector<int>> uses;
  for (int rank = 0; rank < kWorkers; ++rank) {
    std::map<int, nlohmann::json> steps;  // a repeated step replaces the undone one
    for (const auto& line : read_json_lines(folder / ("ledger.rank" + std::to_string(rank)))) {
      if (line.contains("step")) steps[line.at("step")] = line;
    }
    for (const auto& [step, line] : steps) {
      auto& counts = uses[line.at("epoch")];
      counts.resize(kSamples);
      for (const std::int64_t sample : line.at("samples")) {
        ++counts.at(static_cast<std::size_t>(sample));
      }
    }
  }
  return uses;
}

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    names.push_back(entry.path().filename());
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

TEST_SUITE("training") {
  TEST_CASE("training: killed workers do not change the result or the use of samples") {
    const TemporaryFolder undisturbed;
    Program calm(training(undisturbed, 0));
    REQUIRE(calm.wait() == 0);
    const auto expected = end_of(undisturbed);
    const int steps = expected.at("step");

    constexpr int kKills = 5;
    std::mt19937 random(2026);
    std::vector<int> kill_at(kKills);
    for (int& step : kill_at) step = static_cast<int>(random() % static_cast<unsigned>(steps - 40));
    std::sort(kill_at.begin(), kill_at.end());

    const TemporaryFolder disturbed;
    Program run(training(disturbed, kKills));
    for (int attempt = 0; attempt < kKills; ++attempt) {
      const int rank = static_cast<int>(random() % kWorkers);
      const int step = std::max(kill_at[static_cast<std::size_t>(attempt)], 1);
      CAPTURE(attempt);
      CAPTURE(step);
      REQUIRE(wait_until([&] { return last_step(disturbed, attempt) >= step; }));
      const pid_t victim = pid_of(disturbed, attempt, rank);
      REQUIRE(victim > 0);
      REQUIRE(::kill(victim, SIGKILL) == 0);
    }
    const int exit_code = run.wait();
    INFO(run.output());
    CHECK(exit_code == 0);
    CHECK(run.leaves_no_process());
    const auto actual = end_of(disturbed);
    CHECK(actual.at("step") == steps);
    CHECK(actual.at("parameters_hash") == expected.at("parameters_hash"));

    const auto uses = uses_by_epoch(disturbed);
    REQUIRE(uses.size() == kEpochs);
    for (const auto& [epoch, counts] : uses) {
      CHECK(counts == std::vector<int>(kSamples, 1));
    }
    for (const auto& name : names_in(disturbed / "checkpoints")) {
      CHECK_MESSAGE(name.find("tmp") == std::string::npos, name);
    }
  }

  TEST_CASE("training: the report names the failed worker instead of its victims") {
    for (int round = 0; round < 5; ++round) {
      const TemporaryFolder folder;
      ddprun::test::write_file(folder / "file", "");
      // Only rank 0 writes checkpoints and metrics; the folder is replaced by a file.
      const auto result = ddprun::test::run_program(
          {in_bin("ddprun"), "--nproc_per_node=4", "--exit_code=worker", "trainer",
           "--dataset=random", "--max_steps=50", "--checkpoint_dir=" + (folder / "file")});
      INFO(result.output);
      CHECK(result.exit_code == 1);
      const auto cause = result.output.find("Root cause");
      REQUIRE(cause != std::string::npos);
      CHECK(result.output.substr(cause).find("rank      : 0 ") < 80);
      CHECK(result.output.substr(cause).find("exit code 1") < 160);
    }
  }

  TEST_CASE("training: every example configuration trains") {
    const std::string configs = std::string(DDPRUN_SOURCE_DIR) + "/configs";
    int trained = 0;
    for (const auto& name : names_in(configs)) {
      if (!name.ends_with(".toml")) continue;  // others are configurations of the launcher
      const auto result =
          ddprun::test::run_program({in_bin("ddprun"), "--nproc_per_node=2", "trainer", "--config",
                                     configs + "/" + name, "--max_steps=3"});
      INFO(name, "\n", result.output);
      CHECK(result.exit_code == 0);
      CHECK(result.output.find("step 3 after") != std::string::npos);
      ++trained;
    }
    CHECK(trained >= 3);
  }

  TEST_CASE("training: an unknown option in a configuration file is named") {
    const TemporaryFolder folder;
    ddprun::test::write_file(folder / "bad.toml", "modle = \"mlp\"\n");
    const auto result =
        ddprun::test::run_program({in_bin("trainer"), "--config", folder / "bad.toml"});
    INFO(result.output);
    CHECK(result.exit_code == 2);
    CHECK(result.output.find("modle") != std::string::npos);
  }

  TEST_CASE("training: the default run of the README reaches 88 % test accuracy") {
    const TemporaryFolder folder;
    const auto result = ddprun::test::run_program(
        {in_bin("ddprun"), "--nproc_per_node=4", "trainer", "--metrics", folder / "metrics"});
    INFO(result.output);
    REQUIRE(result.exit_code == 0);
    double accuracy = 0;
    for (const auto& line : read_json_lines(folder / "metrics")) {
      if (line.at("event") == "epoch") accuracy = line.at("test_accuracy");
    }
    CHECK(accuracy >= 0.88);
  }

  TEST_CASE("training: equal seeds yield equal parameters") {
    std::vector<nlohmann::json> ends;
    for (int run = 0; run < 2; ++run) {
      const TemporaryFolder folder;
      auto arguments = training(folder, 0);
      arguments.push_back("--max_steps=50");
      Program program(arguments);
      REQUIRE(program.wait() == 0);
      ends.push_back(end_of(folder));
    }
    CHECK(ends[0].at("parameters_hash") == ends[1].at("parameters_hash"));
  }
}

}  // namespace training_test
