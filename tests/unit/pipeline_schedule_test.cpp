#include "tests/support/failure_text.hpp"
#include <ddprun/pipeline.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace pipeline_schedule_test {

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

/// Simulates stages that take a unit of time for a forward pass and two for a backward pass, wait
/// for their input, and block while `room` messages to a neighbour are pending.
class Play {
 public:
  Play(PipelineSchedule schedule, int stages, int micro_batches, int room)
      : stages_(stages), room_(room) {
    for (int stage = 0; stage < stages; ++stage)
      all_.push_back({.passes = pipeline_passes(schedule, stage, stages, micro_batches)});
  }

  /// Time at which the last stage completes, or -1 for a deadlock.
  int run() {
    for (bool has_moved = true; has_moved;) {
      has_moved = false;
      for (int stage = 0; stage < stages_; ++stage) has_moved |= advance(stage);
    }
    int end = 0;
    for (const auto& one : all_) {
      if (one.next != one.passes.size()) return -1;
      end = std::max(end, one.time);
    }
    return end;
  }

 private:
  struct Stage {
    std::vector<PipelinePass> passes;
    std::size_t next = 0;
    int time = 0;
    /// Times at which each micro-batch completes, in this order.
    std::vector<int> forward = {};
    std::vector<int> backward = {};
  };

  Stage& at(int stage) { return all_[static_cast<std::size_t>(stage)]; }
  static std::vector<int>& through(Stage& stage, Direction direction) {
    return direction == Direction::forward ? stage.forward : stage.backward;
  }

  bool advance(int stage) {
    Stage& own = at(stage);
    if (own.next == own.passes.size()) return false;
    const auto [direction, number] = own.passes[own.next];
    const int step = direction == Direction::forward ? 1 : -1;
    const int from = stage - step;
    const int to = stage + step;
    const auto micro_batch = static_cast<std::size_t>(number);
    int needed = 0;
    if (from >= 0 && from < stages_) {
      const auto& done = through(at(from), direction);
      if (done.size() <= micro_batch) return false;
      needed = done[micro_batch];
    }
    const bool sends = to >= 0 && to < stages_;
    const auto under_way = static_cast<int>(micro_batch) -
                           (sends ? static_cast<int>(through(at(to), direction).size()) : number);
    if (under_way >= room_) return false;
    own.time = std::max(own.time, needed) + (direction == Direction::forward ? 1 : 2);
    through(own, direction).push_back(own.time);
    ++own.next;
    return true;
  }

  int stages_;
  int room_;
  std::vector<Stage> all_;
};

}  // namespace

TEST_SUITE("pipeline schedule") {
  TEST_CASE("pipeline schedule: schedules of a few stages match the published ones") {
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

  TEST_CASE("pipeline schedule: activations_kept() is the maximum of pending micro-batches") {
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

  TEST_CASE("pipeline schedule: both schedules finish in the same minimum time") {
    for (int stages = 1; stages <= 6; ++stages) {
      for (int micro_batches = 1; micro_batches <= 12; ++micro_batches) {
        CAPTURE(stages);
        CAPTURE(micro_batches);
        // All work of one stage, and the path of the first micro-batch to it and of the last one
        // back.
        const int expected = 3 * micro_batches + 3 * (stages - 1);
        for (const auto schedule : kSchedules)
          CHECK(Play(schedule, stages, micro_batches, micro_batches).run() == expected);
      }
    }
  }

  TEST_CASE("pipeline schedule: stages do not deadlock with one pending message per neighbour") {
    for (int stages = 1; stages <= 6; ++stages) {
      for (int micro_batches = 1; micro_batches <= 40; ++micro_batches) {
        CAPTURE(stages);
        CAPTURE(micro_batches);
        for (const auto schedule : kSchedules)
          CHECK(Play(schedule, stages, micro_batches, 1).run() > 0);
      }
    }
  }

  TEST_CASE("pipeline schedule: consecutive ranks are the stages of one replica") {
    CHECK(pipeline_place(0, 6, 3) == PipelinePlace{0, 3, 0, 2});
    CHECK(pipeline_place(2, 6, 3) == PipelinePlace{2, 3, 0, 2});
    CHECK(pipeline_place(4, 6, 3) == PipelinePlace{1, 3, 1, 2});
    CHECK(pipeline_place(3, 4, 1) == PipelinePlace{0, 1, 3, 4});
    CHECK(pipeline_place(2, 6, 3).is_last());
    CHECK(pipeline_place(3, 6, 3).is_first());
    CHECK(describe_failure([] { pipeline_place(0, 5, 2); }) ==
          "usage: pipeline: 5 workers cannot be divided into pipelines of 2 stages; start a "
          "multiple of 2");
    CHECK(describe_failure([] { pipeline_place(0, 2, 3); }) ==
          "usage: pipeline: 2 workers cannot be divided into pipelines of 3 stages; start a "
          "multiple of 3");
    for (const int stages : {0, -1}) {
      CHECK(describe_failure([&] { pipeline_place(0, 4, stages); }) ==
            "usage: pipeline: " + std::to_string(stages) + " stages (at least 1)");
    }
  }

  TEST_CASE("pipeline schedule: ranks and stages and micro-batches out of range are rejected") {
    struct Row {
      int stage;
      int stages;
      int micro_batches;
      std::string problem;
    };
    for (const auto& row : std::vector<Row>{
             {5, 2, 1, "stage 5 is not within 0..1"},
             {-1, 2, 1, "stage -1 is not within 0..1"},
             {0, 0, 1, "0 stages (at least 1)"},
             {0, 2, 0, "0 micro-batches (at least 1)"},
             {0, 2, -1, "-1 micro-batches (at least 1)"},
         }) {
      for (const auto schedule : kSchedules) {
        CHECK(describe_failure([&] {
                pipeline_passes(schedule, row.stage, row.stages, row.micro_batches);
              }) == "usage: pipeline: " + row.problem);
        CHECK(describe_failure([&] {
                activations_kept(schedule, row.stage, row.stages, row.micro_batches);
              }) == "usage: pipeline: " + row.problem);
      }
    }
    CHECK(describe_failure([] { pipeline_place(7, 4, 2); }) ==
          "usage: pipeline: rank 7 is not within 0..3");
    CHECK(describe_failure([] { pipeline_place(-1, 4, 2); }) ==
          "usage: pipeline: rank -1 is not within 0..3");
    CHECK(describe_failure([] { pipeline_place(0, 0, 2); }) ==
          "usage: pipeline: 0 workers (at least 1)");
  }

  TEST_CASE("pipeline schedule: names of schedules round-trip") {
    for (const auto schedule : kSchedules)
      CHECK(parse_pipeline_schedule(to_string(schedule)) == schedule);
    CHECK(!parse_pipeline_schedule("gpipe"));
  }
}

}  // namespace pipeline_schedule_test
