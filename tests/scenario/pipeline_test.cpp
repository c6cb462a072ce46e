// A real model cut into stages under the launcher: the cut changes nothing but who computes what.
#include "tests/support/json_lines.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using ddprun::test::in_bin;
using ddprun::test::Program;
using ddprun::test::read_json_lines;
using ddprun::test::TemporaryFolder;

namespace {

const std::string kSplit = "--split_size=3";

/// So small that the model's values take most of the time.
std::vector<std::string> training(int workers, const std::vector<std::string>& options,
                                  const std::string& metrics = {}) {
  std::vector<std::string> words{
      in_bin("ddprun"),      "--nproc_per_node=" + std::to_string(workers),
      "--omp_num_threads=1", in_bin("resnet50_pipeline"),
      "--image_size=32",     "--batch_size=5",
      "--classes=10",        "--batches=2"};
  words.insert(words.end(), options.begin(), options.end());
  if (!metrics.empty()) words.push_back("--metrics=" + metrics);
  return words;
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

std::string words_of(int workers, const std::vector<std::string>& options) {
  Program run(training(workers, options));
  CHECK(run.wait() == 1);
  return run.output();
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_SUITE("pipeline") {
  TEST_CASE("a model in two stages learns as it does in one piece, to the last bit") {
    const auto whole = losses_of(1, {kSplit, "--stages=1"});
    REQUIRE(whole.size() == 2);
    CHECK(whole[0] != whole[1]);
    CHECK(losses_of(2, {kSplit, "--schedule=1f1b"}) == whole);
    CHECK(losses_of(2, {kSplit, "--schedule=fill_drain"}) == whole);
  }

  TEST_CASE("two replicas of two stages learn as two whole models do") {
    CHECK(losses_of(4, {kSplit}) == losses_of(2, {kSplit, "--stages=1"}));
  }

  TEST_CASE("workers that make no whole pipelines are told so") {
    CHECK(contains(words_of(3, {kSplit}),
                   "error: pipeline: 3 worker(s) cannot be divided into pipelines of 2 stages; "
                   "start a multiple of 2"));
    CHECK(
        contains(words_of(1, {"--schedule=gpipe"}), "--schedule: gpipe not in {fill_drain,1f1b}"));
    CHECK(contains(words_of(1, {"--split_size=2"}),
                   "error: --image_size 32 leaves one value of a channel to the batch norms"));
  }
}
