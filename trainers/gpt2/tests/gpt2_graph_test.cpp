// Trainings of gpt2 with CUDA graphs for steps, with the fake devices and NCCL: results equal those
// of individually launched kernels.
#include "tests/support/captures.hpp"
#include "tests/support/failure_text.hpp"
#include "trainers/gpt2/tests/gpt2_trainings.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <cstdint>
#include <future>
#include <string>
#include <utility>
#include <vector>

namespace gpt2_graph_test {

using namespace ddprun;
using namespace ddprun::test;
using trainer::gpt2::Options;
using trainer::gpt2::Training;

namespace {

/// Two of them before the graph is created.
constexpr int kSteps = 4;

/// The rate differs in each step.
Options graph_training() {
  Options options = small_training();
  options.steps = kSteps;
  options.warmup_steps = 3;
  options.gradient_norm_max = 0.2;  // smaller than the real one
  return options;
}

Options with_graph(Options options) {
  options.cuda_graph = true;
  return options;
}

void check_bits(int ranks, const Options& options) {
  const CleanDevices clean;
  const SmallText text;
  const int failures = fake_capture_failures();
  const RankResults expected = train_on_devices(ranks, text, options);
  CHECK(expected.losses.size() == kSteps);
  CHECK(expected.test_losses.size() == 1);
  CHECK(train_on_devices(ranks, text, with_graph(options)) == expected);
  CHECK(fake_capture_failures() == failures);
}

}  // namespace

TEST_SUITE("gpt2 as graphs") {
  TEST_CASE("gpt2 graphs: all results equal those without graphs bit for bit") {
    check_bits(1, graph_training());
  }

  TEST_CASE("gpt2 graphs: bfloat16 without clipping gives equal bits on more ranks") {
    Options options = graph_training();
    options.gradient_accumulation = 1;
    options.dtype = "bfloat16";
    options.gradient_norm_max = 0;
    check_bits(2, options);
  }

  TEST_CASE("gpt2 graphs: a smaller last pass gives equal bits") {
    Options options = graph_training();
    options.global_batch_size = 5;
    check_bits(2, options);
  }

  TEST_CASE("gpt2 graphs: a rank without sequences gives equal bits") {
    Options options = graph_training();
    options.global_batch_size = 1;
    check_bits(2, options);
  }

  TEST_CASE("gpt2 graphs: after two steps no kernel is launched individually") {
    const CleanDevices clean;
    const SmallText text;
    run_ranks(device_ranks(1), [&](ProcessGroup& group) {
      const auto compute = make_emulated_compute();
      TrainingEnds ends;
      std::vector<int> launches;
      int before = emulated_launches();
      train_rank(std::move(group), *compute, text, with_graph(graph_training()), ends,
                 [&](const Training& training) {
                   CHECK((training.recording != nullptr) == (training.step > 2));
                   launches.push_back(emulated_launches() - before);
                   before = emulated_launches();
                 });
      CHECK(launches[1] > 0);
      CHECK(launches[3] == 0);
    });
  }

  TEST_CASE("gpt2 graphs: training resumes from a checkpoint with more ranks") {
    const CleanDevices clean;
    const SmallText text;
    Options options = graph_training();
    options.steps = 6;
    options.global_batch_size = 4;
    const RankResults whole = train_on_devices(1, text, options);
    TrainingEnds ends{.last_step = 3};
    train_on_devices(1, text, with_graph(options), ends);
    ends.last_step = options.steps;
    TrainingEnds of_two = ends;
    TrainingEnds of_two_with_graph = ends;
    const RankResults rest = train_on_devices(1, text, with_graph(options), ends);
    CHECK(rest.hash == whole.hash);
    CHECK(rest.losses == Doubles(whole.losses.begin() + 3, whole.losses.end()));
    CHECK(train_on_devices(2, text, with_graph(options), of_two_with_graph) ==
          train_on_devices(2, text, options, of_two));
    CHECK(of_two_with_graph.checkpoint == of_two.checkpoint);
  }

  TEST_CASE("gpt2 graphs: all ranks get a stop request in the same launch") {
    const CleanDevices clean;
    const SmallText text;
    run_ranks(device_ranks(2), [&](ProcessGroup& group) {
      const auto compute = make_emulated_compute();
      Options options = with_graph(graph_training());
      options.steps = 5;
      TrainingEnds ends{.stop_wanted_in = group.rank() == 1 ? 4 : 0};
      const RankResults results = train_rank(std::move(group), *compute, text, options, ends);
      CHECK(results.stops == std::vector<std::int64_t>{4});
    });
  }

  TEST_CASE("gpt2 graphs: a launch times out if another rank hangs") {
    const CleanDevices clean;
    const SmallText text;
    std::promise<void> end;
    const std::shared_future<void> has_ended = end.get_future();
    run_ranks(device_ranks(2), [&](ProcessGroup& group) {
      const auto compute = make_emulated_compute();
      TrainingEnds ends;
      const bool hangs = group.rank() == 1;
      const auto message = describe_failure([&] {
        train_rank(std::move(group), *compute, text, with_graph(graph_training()), ends,
                   [&](Training& training) {
                     if (training.step < 3) return;
                     training.launch_timeout = std::chrono::milliseconds(200);
                     if (hangs) has_ended.wait_for(std::chrono::minutes(1));
                   });
      });
      if (hangs) {
        CHECK(message.starts_with("peer 0: "));
      } else {
        end.set_value();
        CHECK(message.starts_with("timeout: step 4, a CUDA graph, was not done after "));
        CHECK(message.find("(0.2 s allowed)") != std::string::npos);
      }
    });
    CHECK(are_communicators_gone());
  }

  TEST_CASE("gpt2 graphs: a rank that exits between launches is reported to the others") {
    const CleanDevices clean;
    const SmallText text;
    run_ranks(device_ranks(2), [&](ProcessGroup& group) {
      const auto compute = make_emulated_compute();
      TrainingEnds ends;
      ProcessGroup own = group;
      const auto message = describe_failure([&] {
        train_rank(std::move(group), *compute, text, with_graph(graph_training()), ends,
                   [&](const Training& training) {
                     if (training.step == 3 && own.rank() == 1) own.abort("enough");
                   });
      });
      CHECK(message.find("enough") != std::string::npos);
      if (own.rank() == 0) CHECK(message.starts_with("peer 1: "));
    });
    CHECK(are_communicators_gone());
  }
}

}  // namespace gpt2_graph_test
