// A language model under the launcher: killed workers cost only time.
#include "tests/support/json_lines.hpp"
#include "trainers/gpt2/tests/token_files.hpp"

#include <doctest/doctest.h>

#include <csignal>
#include <map>
#include <string>
#include <vector>

namespace gpt2_test {

using ddprun::test::guessable_tokens;
using ddprun::test::in_bin;
using ddprun::test::Program;
using ddprun::test::read_json_lines;
using ddprun::test::TemporaryFolder;
using ddprun::test::wait_until;
using ddprun::test::write_token_file;

namespace {

constexpr int kSteps = 300;  // so many that a kill is long before the end

std::vector<std::string> training(const TemporaryFolder& folder, int max_restarts) {
  write_token_file(folder / "text", 300, guessable_tokens(20'000, 300));
  return {in_bin("ddprun"),
          "--nproc_per_node=2",
          "--max_restarts=" + std::to_string(max_restarts),
          "--events=" + (folder / "events"),
          "gpt2",
          "--data=" + (folder / "text"),
          "--steps=" + std::to_string(kSteps),
          "--warmup_steps=10",
          "--lr=2e-3",
          "--bucket_cap_mb=0.1",
          "--checkpoint_dir=" + (folder / "checkpoints"),
          "--checkpoint_every=7",
          "--metrics=" + (folder / "metrics")};
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

pid_t pid_of(const TemporaryFolder& folder, int attempt, int rank) {
  for (const auto& event : read_json_lines(folder / "events")) {
    if (event.at("event") == "worker_started" && event.at("attempt") == attempt &&
        event.at("rank") == rank) {
      return event.at("pid");
    }
  }
  return 0;
}

/// The loss of each step; a repeated step must have the same loss to the last digit.
std::map<int, double> losses_of(const TemporaryFolder& folder) {
  std::map<int, double> losses;
  for (const auto& line : read_json_lines(folder / "metrics")) {
    if (line.at("event") != "step") continue;
    const double loss = line.at("loss");
    const auto [entry, is_new] = losses.emplace(line.at("step"), loss);
    CHECK(entry->second == loss);
  }
  return losses;
}

}  // namespace

TEST_SUITE("gpt2") {
  TEST_CASE("gpt2: killed workers do not change any step") {
    const TemporaryFolder undisturbed;
    Program calm(training(undisturbed, 0));
    REQUIRE(calm.wait() == 0);

    const TemporaryFolder disturbed;
    const std::vector<int> kill_after = {5, 30, 60};
    Program run(training(disturbed, static_cast<int>(kill_after.size())));
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
    CHECK(read_json_lines(disturbed / "metrics").back().at("parameters_hash") ==
          read_json_lines(undisturbed / "metrics").back().at("parameters_hash"));
  }
}

}  // namespace gpt2_test
