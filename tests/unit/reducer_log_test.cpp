#include "tests/support/rank_errors.hpp"
#include "tests/support/reducer_model.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <cmath>

namespace reducer_log_test {

using namespace ddprun;
using namespace ddprun::test;

TEST_SUITE("reducer log") {
  TEST_CASE("reducer log: entries have the same names as in PyTorch") {
    const auto errors = errors_of_ranks(2, [](ProcessGroup& group) {
      Model model;
      auto options = kSmallBuckets;
      options.rebuild_buckets = true;
      GradientReducer reducer(group, model.parameters, {}, options);
      auto data = reducer.logging_data();
      require(data.ints.at("world_size") == 2 && data.ints.at("rank") == group.rank(), "rank");
      require(data.ints.at("iteration") == 0, "iteration");
      require(data.ints.at("num_parameter_tensors") == 5, "tensors");
      require(data.ints.at("total_parameter_size_bytes") == 100, "bytes");
      require(data.ints.at("bucket_cap_bytes") == 40, "cap");
      require(data.ints.at("gradient_as_bucket_view") == 1, "view");
      require(data.ints.at("avg_forward_compute_time") == 0, "average of nothing");
      require(data.strings.at("bucket_sizes") == "20, 40, 40", "sizes");
      require(data.strings.at("initial_bucket_size_limits") == "20, 40", "limits");
      require(data.strings.at("dtypes") == "float32", "types");
      require(data.strings.at("comm_hook") == "", "hook");
      require(data.strings.count("rebuilt_bucket_sizes") == 0, "not rebuilt");
      StepTimeline timeline;
      for (int step = 0; step < 3; ++step) {
        reducer.begin_forward();
        reducer.begin();
        for (std::size_t p = 0; p < 5; ++p) reducer.ready(p);
        timeline = reducer.finish();
      }
      data = reducer.logging_data();
      require(data.ints.at("iteration") == 3, "iterations");
      require(data.ints.at("has_rebuilt_buckets") == 1, "rebuilt");
      require(data.strings.at("rebuilt_bucket_sizes") == "40, 40, 20", "rebuilt sizes");
      require(data.strings.at("rebuilt_per_bucket_param_indices") == "0, 1; 2; 3, 4", "indices");
      require(data.strings.at("prev_iteration_grad_ready_order_indices") == "0, 1, 2, 3, 4",
              "order");
      const auto is_last = [&](const char* name, double seconds) {
        return std::abs(static_cast<double>(data.ints.at(name)) - seconds * 1e9) <= 1;
      };
      require(is_last("forward_compute_time", timeline.forward_seconds), "forward");
      require(is_last("backward_compute_time", timeline.finish_called_seconds), "backward");
      require(is_last("backward_comm_time", timeline.communication_seconds()), "communication");
      require(is_last("backward_compute_comm_overlap_time", timeline.overlap_seconds()), "overlap");
      require(is_last("exposed_comm_time", timeline.exposed_seconds()), "exposed");
      require(data.ints.at("avg_backward_comm_time") > 0, "average");
    });
    CHECK(errors == std::vector<std::string>(2));
  }

  TEST_CASE("reducer log: the bytes of unused parameters are logged") {
    auto groups = ProcessGroup::create_in_process(1);
    Model model;
    auto options = kSmallBuckets;
    options.find_unused_parameters = true;
    GradientReducer reducer(groups[0], model.parameters, {}, options);
    reducer.begin();
    for (const std::size_t p : {0u, 3u, 4u}) reducer.ready(p);
    reducer.finish();
    CHECK(reducer.logging_data().ints.at("unused_parameter_size") == 4 * (7 + 10));
  }

  TEST_CASE("reducer log: the times of a step are computed from its buckets") {
    const StepTimeline timeline = {.buckets = {{.launched_seconds = 1, .done_seconds = 5},
                                               {.launched_seconds = 2, .done_seconds = 4}},
                                   .finish_called_seconds = 3,
                                   .finished_seconds = 5.5};
    CHECK(timeline.communication_seconds() == 4);
    CHECK(timeline.overlap_seconds() == 2);
    CHECK(timeline.exposed_seconds() == 2.5);
    CHECK(timeline.exposed_by_bucket() == std::vector<double>{2, 0});
    const StepTimeline in_turn = {
        .buckets = {{.done_seconds = 2}, {.done_seconds = 3.5}, {.done_seconds = 4}},
        .finish_called_seconds = 3,
        .finished_seconds = 4};
    CHECK(in_turn.exposed_by_bucket() == std::vector<double>{0, 0.5, 0.5});
    CHECK(StepTimeline{}.exposed_by_bucket().empty());
    CHECK(StepTimeline{}.communication_seconds() == 0);
    CHECK(StepTimeline{}.overlap_seconds() == 0);
  }

  TEST_CASE("reducer log: the end time of a bucket is that of its Work") {
    const auto errors = errors_of_ranks(2, [](ProcessGroup& group) {
      Model model;
      auto options = kSmallBuckets;
      std::vector<ddprun::Work> works;
      options.hook = ddprun::BucketHook{
          .name = "shown", .start = [&](const ddprun::BucketView& bucket, ddprun::Work& work) {
            work = group.all_reduce(bucket.gradients);
            works.push_back(work);
          }};
      GradientReducer reducer(group, model.parameters, {}, options);
      const auto before = std::chrono::steady_clock::now();
      reducer.begin();
      for (const std::size_t p : {4u, 3u, 2u}) reducer.ready(p);
      works.at(1).wait();
      const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - before;
      for (const std::size_t p : {1u, 0u}) reducer.ready(p);
      const auto timeline = reducer.finish();
      for (const std::size_t b : {0u, 1u}) {
        const auto& bucket = timeline.buckets[b];
        require(bucket.launched_seconds <= bucket.done_seconds, "before its launch");
        require(bucket.done_seconds <= passed.count(), "later than it was waited for");
      }
      require(timeline.buckets[2].done_seconds >= timeline.buckets[1].done_seconds, "order");
    });
    CHECK(errors == std::vector<std::string>(2));
  }
}

}  // namespace reducer_log_test
