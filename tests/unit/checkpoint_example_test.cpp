// The example of docs/checkpoint.md, compiled and run; also checks that the document shows it.
#include "tests/support/document.hpp"
#include "tests/support/temporary_folder.hpp"
#include <ddprun/checkpoint.hpp>

#include <doctest/doctest.h>

#include <functional>
#include <iostream>
#include <string>
#include <vector>

namespace checkpoint_example_test {

using ddprun::Checkpoint;
using ddprun::CheckpointDirectory;
using ddprun::LogLevel;

namespace {

/// Prints messages of the directory, for example about a damaged file that is skipped.
void print_message(LogLevel, std::string_view line) {
  std::cerr << line << '\n';
}

/// Trains up to step `steps`, from the newest checkpoint if there is one.
void train(const std::string& folder, std::vector<float>& weights, std::int64_t steps,
           const std::function<void(std::vector<float>& weights)>& take_step) {
  CheckpointDirectory checkpoints(folder, {.log = print_message});
  checkpoints.claim();  // before loading: no other process may save
  std::int64_t step = 0;
  if (const auto newest = checkpoints.load_newest()) {
    ddprun::get_section(*newest, "weights", weights);
    step = newest->step;
  }
  while (step < steps) {
    take_step(weights);
    ++step;
    if (step % 10 != 0 && step != steps) continue;
    Checkpoint checkpoint{.step = step, .sections = {}};
    ddprun::put_section(checkpoint, "weights", weights);
    checkpoints.save(checkpoint);
  }
}

}  // namespace

TEST_SUITE("checkpoint example") {
  TEST_CASE("checkpoint example: a second attempt resumes from the saved step") {
    const ddprun::test::TemporaryFolder folder;
    int steps = 0;
    const auto count = [&](std::vector<float>& weights) {
      ++steps;
      weights[0] += 1;
    };
    std::vector<float> first(3);
    CHECK_THROWS_WITH(train(folder / "run", first, 30,
                            [&](std::vector<float>& weights) {
                              if (steps == 17) throw std::runtime_error("killed");
                              count(weights);
                            }),
                      "killed");
    std::vector<float> second(3);
    train(folder / "run", second, 30, count);
    CHECK(steps == 17 + 20);
    CHECK(second == std::vector<float>{30, 0, 0});
  }

  TEST_CASE("checkpoint example: docs/checkpoint.md shows the compiled code") {
    const auto here = ddprun::test::code_compiled_in("tests/unit/checkpoint_example_test.cpp");
    CHECK_FALSE(here.empty());
    CHECK(here == ddprun::test::code_shown_in("docs/checkpoint.md"));
  }
}

}  // namespace checkpoint_example_test
