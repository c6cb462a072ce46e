// A real model in pipeline stages under the launcher: the result equals that of the whole model.
#include "tests/support/json_lines.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace pipeline_test {

using ddprun::test::in_bin;
using ddprun::test::Program;
using ddprun::test::read_json_lines;
using ddprun::test::TemporaryFolder;

namespace {

const std::string kSplit = "--split_size=3";

/// So small that most of the time is spent on the model's values.
std::vector<std::string> training(int workers, const std::vector<std::string>& options,
                                  const std::string& metrics = {}) {
  std::vector<std::string> arguments{
      in_bin("ddprun"),      "--nproc_per_node=" + std::to_string(workers),
      "--omp_num_threads=1", in_bin("resnet50_pipeline"),
      "--image_size=32",     "--batch_size=5",
      "--classes=10",        "--batches=2"};
  arguments.insert(arguments.end(), options.begin(), options.end());
  if (!metrics.empty()) arguments.push_back("--metrics=" + metrics);
  return arguments;
}

std::vector<double> losses_of(int workers, const std::vector<std::string>& options) {
  const TemporaryFolder folder;
  Program run(training(workers, options, folder / "metrics"));
  const int exit_code = run.wait();
  INFO(run.output());
  REQUIRE(exit_code == 0);
  std::vector<double> losses;
  for (const auto& line : read_json_lines(folder / "metrics")) {
    if (line.at("event") == "batch") losses.push_back(line.at("loss"));
  }
  return losses;
}

std::string error_of(int workers, const std::vector<std::string>& options) {
  Program run(training(workers, options));
  CHECK(run.wait() == 1);
  return run.output();
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_SUITE("pipeline") {
  TEST_CASE("resnet50_pipeline: two stages train bitwise like one stage") {
    const auto whole = losses_of(1, {kSplit, "--stages=1"});
    REQUIRE(whole.size() == 2);
    CHECK(whole[0] != whole[1]);
    CHECK(losses_of(2, {kSplit, "--schedule=1f1b"}) == whole);
    CHECK(losses_of(2, {kSplit, "--schedule=fill_drain"}) == whole);
  }

  TEST_CASE("resnet50_pipeline: two replicas of two stages train like two replicas of one") {
    CHECK(losses_of(4, {kSplit}) == losses_of(2, {kSplit, "--stages=1"}));
  }

  TEST_CASE("resnet50_pipeline: workers that do not form whole pipelines are rejected") {
    CHECK(contains(
        error_of(3, {kSplit}),
        "error: --stages 2 needs a multiple of 2 workers and there are 3: start as many by "
        "--nproc_per_node, or let each have the whole model by --stages 1"));
    CHECK(
        contains(error_of(1, {"--schedule=gpipe"}), "--schedule: gpipe not in {fill_drain,1f1b}"));
    CHECK(contains(error_of(1, {"--stages=three"}),
                   "error: --stages: three is not a whole number from 1 to 2"));
    CHECK(contains(error_of(1, {"--lr=x"}), "error: --lr: x is not a number from 0 to 1000"));
    CHECK(contains(error_of(1, {"one", "two"}), "error: unexpected arguments: one, two ("));
    CHECK(contains(error_of(1, {"one"}), "error: unexpected argument: one ("));
    CHECK(contains(error_of(1, {"--split_size=2"}),
                   "error: --image_size 32 leaves one value of a channel to the batch norms"));
  }

  TEST_CASE("resnet50_pipeline: the first line describes the run") {
    Program run(training(2, {}));
    CHECK(run.wait() == 0);
    CHECK_MESSAGE(contains(run.output(),
                           "resnet50_pipeline: 2 stages, 1 replica, batches of 5 images in one "
                           "piece, 1f1b\n"),
                  run.output());
  }

  TEST_CASE("resnet50_pipeline: help fits the terminal or COLUMNS") {
    for (const auto& [columns, most] : std::vector<std::pair<std::string, std::size_t>>{
             {"", 80}, {"60", 60}, {"200", 80}, {"7", 50}, {"-4", 80}, {"wide", 80}}) {
      CAPTURE(columns);
      Program help({"/usr/bin/env", "COLUMNS=" + columns, in_bin("resnet50_pipeline"), "--help"});
      CHECK(help.wait() == 0);
      std::istringstream lines(help.output());
      std::size_t widest = 0;
      for (std::string line; std::getline(lines, line);) widest = std::max(widest, line.size());
      CHECK(widest <= most);
      CHECK(widest > most - 8);
    }
  }
}

}  // namespace pipeline_test
