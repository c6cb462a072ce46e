#include "tests/support/failure_text.hpp"
#include <ddprun/pipeline.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

using namespace ddprun;
using namespace ddprun::test;

namespace {

using Direction = PipelinePass::Direction;
constexpr PipelineSchedule kSchedules[] = {PipelineSchedule::fill_drain,
                                           PipelineSchedule::one_forward_one_backward};

/// "F0 F1 B0 B1"
std::string text_of(const std::vector<PipelinePass>& passes) {
  std::string text;
  for (const auto& [direction, micro_batch] : passes) {
    text += (text.empty() ? "" : " ") + std::string(direction == Direction::forward ? "F" : "B") +
            std::to_string(micro_batch);
  }
  return text;
}

/// Stages that all take a unit of time for a forward pass and two for a backward pass, and wait for
/// what they need. Returns when the last is done, or -1 if they wait for one another.
int play(PipelineSchedule schedule, int stages, int micro_batches) {
  struct Stage {
    std::vector<PipelinePass> passes;
    std::size_t next = 0;
    int time = 0;
  };
  std::vector<Stage> all;
  for (int stage = 0; stage < stages; ++stage)
    all.push_back({pipeline_passes(schedule, stage, stages, micro_batches)});
  const auto index = [&](int stage, int micro_batch) {
    return static_cast<std::size_t>(stage * micro_batches + micro_batch);
  };
  std::vector<int> forward(index(stages, 0), -1);
  std::vector<int> backward(index(stages, 0), -1);
  for (bool has_moved = true; has_moved;) {
    has_moved = false;
    for (int stage = 0; stage < stages; ++stage) {
      auto& one = all[static_cast<std::size_t>(stage)];
      if (one.next == one.passes.size()) continue;
      const auto [direction, number] = one.passes[one.next];
      const bool is_forward = direction == Direction::forward;
      const bool is_end = is_forward ? stage == 0 : stage + 1 == stages;
      int needed = 0;
      if (!is_end)
        needed =
            is_forward ? forward[index(stage - 1, number)] : backward[index(stage + 1, number)];
      if (needed < 0) continue;
      one.time = std::max(one.time, needed) + (is_forward ? 1 : 2);
      (is_forward ? forward : backward)[index(stage, number)] = one.time;
      ++one.next;
      has_moved = true;
    }
  }
  int end = 0;
  for (const auto& one : all) {
    if (one.next != one.passes.size()) return -1;
    end = std::max(end, one.time);
  }
  return end;
}

}  // namespace

TEST_SUITE("pipeline schedule") {
  TEST_CASE("the orders of a few stages are those of the papers") {
    const auto passes = [](PipelineSchedule schedule, int stage, int stages, int micro_batches) {
      return text_of(pipeline_passes(schedule, stage, stages, micro_batches));
    };
    constexpr auto kFillDrain = PipelineSchedule::fill_drain;
    constexpr auto kAlternate = PipelineSchedule::one_forward_one_backward;
    CHECK(passes(kFillDrain, 0, 2, 3) == "F0 F1 F2 B0 B1 B2");
    CHECK(passes(kFillDrain, 1, 2, 3) == "F0 F1 F2 B0 B1 B2");
    CHECK(passes(kAlternate, 0, 3, 4) == "F0 F1 F2 B0 F3 B1 B2 B3");
    CHECK(passes(kAlternate, 1, 3, 4) == "F0 F1 B0 F2 B1 F3 B2 B3");
    CHECK(passes(kAlternate, 2, 3, 4) == "F0 B0 F1 B1 F2 B2 F3 B3");
    CHECK(passes(kAlternate, 0, 4, 2) == "F0 F1 B0 B1");
    CHECK(passes(kAlternate, 0, 1, 1) == "F0 B0");
  }

  TEST_CASE("each micro-batch goes forward, then backward, and no more are kept than is said") {
    for (const auto schedule : kSchedules) {
      for (int stages = 1; stages <= 5; ++stages) {
        for (int stage = 0; stage < stages; ++stage) {
          for (int micro_batches = 1; micro_batches <= 9; ++micro_batches) {
            CAPTURE(stage);
            CAPTURE(stages);
            CAPTURE(micro_batches);
            std::set<int> kept;
            std::size_t most = 0;
            int forward = 0;
            int backward = 0;
            for (const auto& [direction, number] :
                 pipeline_passes(schedule, stage, stages, micro_batches)) {
              if (direction == Direction::forward) {
                CHECK(number == forward++);
                kept.insert(number);
                most = std::max(most, kept.size());
              } else {
                CHECK(number == backward++);
                CHECK(kept.erase(number) == 1);
              }
            }
            CHECK(forward == micro_batches);
            CHECK(backward == micro_batches);
            CHECK(static_cast<int>(most) ==
                  activations_kept(schedule, stage, stages, micro_batches));
          }
        }
      }
    }
  }

  TEST_CASE("stages never wait for one another in a ring, and are as quick in both orders") {
    for (int stages = 1; stages <= 6; ++stages) {
      for (int micro_batches = 1; micro_batches <= 12; ++micro_batches) {
        CAPTURE(stages);
        CAPTURE(micro_batches);
        // All work of one stage, and the way of the first micro-batch there and of the last back.
        const int expected = 3 * micro_batches + 3 * (stages - 1);
        for (const auto schedule : kSchedules)
          CHECK(play(schedule, stages, micro_batches) == expected);
      }
    }
  }

  TEST_CASE("workers are the stages of one replica after the other") {
    CHECK(pipeline_place(0, 6, 3) == PipelinePlace{0, 3, 0, 2});
    CHECK(pipeline_place(2, 6, 3) == PipelinePlace{2, 3, 0, 2});
    CHECK(pipeline_place(4, 6, 3) == PipelinePlace{1, 3, 1, 2});
    CHECK(pipeline_place(3, 4, 1) == PipelinePlace{0, 1, 3, 4});
    CHECK(pipeline_place(2, 6, 3).is_last());
    CHECK(pipeline_place(3, 6, 3).is_first());
    for (const auto& [workers, stages] : {std::pair{5, 2}, {2, 3}, {4, 0}, {4, -1}}) {
      const int count = workers;
      const int cut = stages;
      CHECK(describe_failure([&] { pipeline_place(0, count, cut); }) ==
            "usage: pipeline: " + std::to_string(count) +
                " worker(s) cannot be divided into pipelines of " + std::to_string(cut) +
                " stage(s)");
    }
  }

  TEST_CASE("schedules have names") {
    for (const auto schedule : kSchedules)
      CHECK(parse_pipeline_schedule(to_string(schedule)) == schedule);
    CHECK(!parse_pipeline_schedule("gpipe"));
  }
}
