#include "tests/support/program.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <map>
#include <sstream>
#include <string>
#include <vector>

namespace trainer_run_test {

using ddprun::test::in_bin;
using ddprun::test::Program;
using ddprun::test::read_file;
using ddprun::test::run_program;
using ddprun::test::TemporaryFolder;
using nlohmann::json;

namespace {

using Strings = std::vector<std::string>;

/// Command line of a run with this number of workers; a single one needs no launcher.
Strings command(int workers, const Strings& options) {
  Strings arguments;
  if (workers > 1) arguments = {in_bin("ddprun"), "--nproc_per_node=" + std::to_string(workers)};
  arguments.push_back(in_bin("trainer"));
  arguments.insert(arguments.end(), options.begin(), options.end());
  return arguments;
}

std::string run(int workers, const Strings& options) {
  const auto result = run_program(command(workers, options));
  CHECK_MESSAGE(result.exit_code == 0, result.output);
  return result.output;
}

std::vector<json> lines_of(const std::string& path) {
  std::vector<json> lines;
  std::istringstream text(read_file(path));
  for (std::string line; std::getline(text, line);) lines.push_back(json::parse(line));
  return lines;
}

std::vector<double> losses_of(const std::string& metrics) {
  std::vector<double> losses;
  for (const json& line : lines_of(metrics)) {
    if (line.at("event") == "step") losses.push_back(line.at("loss"));
  }
  return losses;
}

std::string hash_of(const std::string& metrics) {
  const auto lines = lines_of(metrics);
  REQUIRE_FALSE(lines.empty());
  REQUIRE(lines.back().at("event") == "end");
  return lines.back().at("parameters_hash");
}

double largest_distance(const std::vector<double>& left, const std::vector<double>& right) {
  REQUIRE(left.size() == right.size());
  double largest = 0;
  for (std::size_t i = 0; i < left.size(); ++i) {
    largest = std::max(largest, std::abs(left[i] - right[i]));
  }
  return largest;
}

/// Number of uses of each sample in each epoch, by steps that count: a worker that resumes after
/// step n undoes later steps.
std::map<std::pair<int, int>, int> uses_of(const std::string& ledger, int workers) {
  std::map<std::pair<int, int>, int> uses;
  for (int rank = 0; rank < workers; ++rank) {
    std::map<int, json> steps;
    for (const json& line : lines_of(ledger + ".rank" + std::to_string(rank))) {
      if (line.contains("attempt")) {
        steps.erase(steps.upper_bound(line.at("resumed_after_step")), steps.end());
      } else {
        steps[line.at("step")] = line;
      }
    }
    for (const auto& [step, line] : steps) {
      for (const int sample : line.at("samples")) ++uses[{line.at("epoch"), sample}];
    }
  }
  return uses;
}

/// Each of the 2048 random samples once in each of the epochs.
void check_exactly_once(const std::map<std::pair<int, int>, int>& uses, std::size_t epochs) {
  CHECK(uses.size() == 2048 * epochs);
  CHECK(std::all_of(uses.begin(), uses.end(), [](const auto& use) { return use.second == 1; }));
}

}  // namespace

TEST_SUITE("trainer runs") {
  TEST_CASE("trainer: equal global batches give equal losses with 1 or 2 or 4 workers") {
    // Rounding differs between the sums of 128 samples and of 4 times 32. With smooth activations
    // the difference stays below 1e-6. The ReLU of mlp has a kink: a value within rounding of zero
    // may fall on either side, after which the runs diverge; a smaller rate than the default slows
    // that down.
    const TemporaryFolder folder;
    for (const Strings& options :
         {Strings{"--model=seqnet"}, Strings{"--model=mlp", "--lr=0.01"}}) {
      std::vector<double> alone;
      for (const int workers : {1, 2, 4}) {
        Strings all = {"--max_steps=100", "--batch_size=" + std::to_string(128 / workers),
                       "--metrics=" + (folder / "metrics")};
        all.insert(all.end(), options.begin(), options.end());
        run(workers, all);
        const auto losses = losses_of(folder / "metrics");
        CHECK(losses.size() == 100);
        if (workers == 1) alone = losses;
        CHECK(largest_distance(losses, alone) < 1e-4);
      }
    }
  }

  TEST_CASE("trainer: accumulated gradients equal those of the larger batch") {
    const TemporaryFolder folder;
    const Strings common = {"--dataset=random", "--model=seqnet", "--epochs=2"};
    const auto losses = [&](const std::string& batch, const std::string& accumulation) {
      Strings options = {"--batch_size=" + batch, "--gradient_accumulation=" + accumulation,
                         "--metrics=" + (folder / "metrics")};
      options.insert(options.end(), common.begin(), common.end());
      run(2, options);
      return losses_of(folder / "metrics");
    };
    CHECK(largest_distance(losses("120", "1"), losses("40", "3")) < 1e-5);
  }

  TEST_CASE("trainer: a stopped and resumed run has bitwise the same result") {
    // With batch normalisation, momentum and an uneven last batch, so that all state is saved.
    const TemporaryFolder folder;
    const auto options = [&](const std::string& name) {
      return Strings{"--dataset=random", "--batch_norm", "--batch_size=30", "--epochs=4",
                     "--metrics",        folder / name,  "--ledger",        folder / name};
    };
    run(3, options("whole"));
    for (const char* limit : {"--max_steps=10", "--max_steps=23", "--max_steps=0"}) {
      Strings part = options("parts");
      part.insert(part.end(),
                  {limit, "--checkpoint_every=7", "--checkpoint_dir=" + (folder / "checkpoints")});
      run(3, part);
    }
    CHECK(hash_of(folder / "parts") == hash_of(folder / "whole"));
    CHECK(losses_of(folder / "parts") == losses_of(folder / "whole"));
    check_exactly_once(uses_of(folder / "whole", 3), 4);
    check_exactly_once(uses_of(folder / "parts", 3), 4);
  }

  TEST_CASE("trainer: a run stopped by a signal loses no step and can be resumed") {
    const TemporaryFolder folder;
    // More epochs than fit into the test, so that the signal arrives before the end.
    Strings saved = {"--dataset=random", "--epochs=100000", "--metrics=" + (folder / "metrics"),
                     "--checkpoint_every=100000", "--checkpoint_dir=" + (folder / "checkpoints")};
    {
      Program program(command(1, saved));
      REQUIRE(program.read_until_contains("epoch 1/"));
      program.signal(SIGTERM);
      CHECK(program.wait() == 128 + SIGTERM);
      CHECK(program.output().find("stopped by a signal") != std::string::npos);
    }
    const std::string limit =
        "--max_steps=" + std::to_string(losses_of(folder / "metrics").size() + 50);
    saved.push_back(limit);
    run(1, saved);
    const std::string stopped = hash_of(folder / "metrics");
    const auto losses = losses_of(folder / "metrics");
    run(1, {"--dataset=random", "--epochs=100000", "--metrics=" + (folder / "metrics"), limit});
    CHECK(hash_of(folder / "metrics") == stopped);
    CHECK(losses_of(folder / "metrics") == losses);
  }

  TEST_CASE("trainer: a restart without a checkpoint keeps the files of the failed attempt") {
    const TemporaryFolder folder;
    const std::string script =
        "if [ $TORCHELASTIC_RESTART_COUNT -eq 0 ]; then set -- --lr=1e6; fi; exec " +
        in_bin("trainer") +
        " --dataset=random --max_steps=3 \"$@\" --metrics=" + (folder / "metrics") +
        " --trace_collectives=" + (folder / "trace.json");
    const auto result = run_program(
        {in_bin("ddprun"), "--nproc_per_node=2", "--max_restarts=1", "/bin/sh", "-c", script});
    REQUIRE_MESSAGE(result.exit_code == 0, result.output);
    std::vector<int> attempts;
    for (const json& line : lines_of(folder / "metrics")) {
      if (line.at("event") == "start") attempts.push_back(line.at("attempt"));
    }
    CHECK(attempts == std::vector{0, 1});
    for (const char* name :
         {"trace.json", "trace.rank1.json", "trace.attempt1.json", "trace.rank1.attempt1.json"}) {
      CHECK_MESSAGE(std::filesystem::exists(folder / name), name);
    }
  }

  TEST_CASE("trainer: a run that cannot start or resume reports the reason") {
    const TemporaryFolder folder;
    const std::string checkpoints = "--checkpoint_dir=" + (folder / "checkpoints");
    run(1, {"--dataset=random", "--max_steps=3", checkpoints});
    const auto refused = [](const Strings& options, const std::string& expected) {
      const auto result = run_program(command(1, options));
      CHECK(result.exit_code == 2);
      CHECK_MESSAGE(result.output.find(expected) != std::string::npos, result.output);
    };
    refused({"--dataset=random", "--batch_size=32", checkpoints},
            "--batch_size was 64 and is now 32");
    refused({"--data_dir=" + folder.path().string()}, "apt-get install dataset-fashion-mnist");
    refused({"--dataset=random", "--metrics=/nowhere/x"}, "/nowhere/x cannot be written");
    refused({"--dataset=random", "--lr=1e6"}, "use a smaller --lr than 1e+06\n");
    refused({"--dataset=random", "--lr=1e6", "--checkpoint_dir=" + (folder / "diverged")},
            "use a smaller --lr than 1e+06 and a new --checkpoint_dir\n");
    refused({"--batch_size=0"}, "error: --batch_size");
    refused({"--checkpoint_every=3"}, "needs --checkpoint_dir");
    if (!std::filesystem::exists("/dev/nvidiactl")) {
      const auto result = run_program(command(1, {"--dataset=random", "--device=cuda"}));
      CHECK(result.exit_code == 2);
      const bool has_reason =
          result.output.find("there is no NVIDIA GPU here") != std::string::npos ||
          result.output.find("was built without CUDA") != std::string::npos;
      CHECK_MESSAGE(has_reason, result.output);
    }
  }

  TEST_CASE("trainer: a failed write to standard output fails the run at the end") {
    const TemporaryFolder folder;
    const auto start = [](const std::string& options) {
      return run_program({"/bin/sh", "-c", in_bin("trainer") + options + " >/dev/full"});
    };
    const auto result = start(" --dataset=random --max_steps=3 --metrics=" + (folder / "metrics"));
    CHECK(result.exit_code == 1);
    CHECK_MESSAGE(result.output.find("writing to standard output: No space left on device") !=
                      std::string::npos,
                  result.output);
    CHECK(lines_of(folder / "metrics").back().at("step") == 3);
    CHECK(start(" --help").exit_code == 1);
  }

  TEST_CASE("trainer: a run that ends within an epoch reports the number of steps") {
    const TemporaryFolder folder;
    const auto start = [&](const std::string& limit) {
      return run(1, {"--dataset=random", "--batch_norm", "--metrics=" + (folder / "metrics"),
                     "--checkpoint_dir=" + (folder / "checkpoints"), "--max_steps=" + limit});
    };
    CHECK(start("10").find(" after 10 of 32 steps") != std::string::npos);
    const auto lines = lines_of(folder / "metrics");
    CHECK(lines.front().at("settings").at("batch_norm") == true);
    CHECK(lines.front().at("settings").at("lr").dump() == "0.05");
    CHECK(lines.back().at("epoch") == 1);
    CHECK(start("5").find("nothing is left to do") != std::string::npos);
  }

  TEST_CASE("trainer: a second run waits for the first and resumes from the checkpoint") {
    const TemporaryFolder folder;
    const Strings arguments = command(
        1, {"--dataset=random", "--epochs=100000", "--checkpoint_dir=" + (folder / "checkpoints")});
    Program first(arguments);
    REQUIRE(first.read_until_contains("epoch 1/"));
    Program second(arguments);
    REQUIRE(second.read_until_contains("waiting for it to end"));
    first.signal(SIGTERM);
    CHECK(first.wait() == 128 + SIGTERM);
    const auto step_at = first.output().rfind("\nstep ");
    REQUIRE(step_at != std::string::npos);
    std::istringstream ending(first.output().substr(step_at + std::string("\nstep ").size()));
    std::string step;
    ending >> step;
    REQUIRE(second.read_until_contains("resumed after step " + step + ", "));
    second.signal(SIGTERM);
    CHECK(second.wait() == 128 + SIGTERM);
  }

  TEST_CASE("trainer: the trace of each worker contains all of the worker's collectives") {
    const TemporaryFolder folder;
    run(2, {"--dataset=random", "--model=toy", "--max_steps=5",
            "--trace_collectives=" + (folder / "trace.json")});
    for (const char* name : {"trace.json", "trace.rank1.json"}) {
      const json trace = json::parse(read_file(folder / name));
      const auto gradients = std::count_if(trace.begin(), trace.end(), [](const json& event) {
        // 10 * 10 + 10 + 10 * 5 + 5 parameters of 4 bytes.
        return event.at("name") == "all_reduce" && event.at("args").at("bytes") == 660;
      });
      CHECK(gradients == 5);
      for (const json& event : trace) {
        if (event.at("ph") == "X") CHECK(event.at("dur").get<double>() >= 0);
      }
    }
  }

  TEST_CASE("trainer: the trace of a killed worker lacks only the closing bracket") {
    const TemporaryFolder folder;
    Program program(command(1, {"--dataset=random", "--model=toy", "--epochs=100000",
                                "--trace_collectives=" + (folder / "trace.json")}));
    REQUIRE(program.read_until_contains("epoch 2/"));
    program.signal(SIGKILL);
    program.wait();
    const json trace = json::parse(read_file(folder / "trace.json") + "]");
    CHECK(trace.size() > 32);  // the steps of an epoch
  }
}

}  // namespace trainer_run_test
