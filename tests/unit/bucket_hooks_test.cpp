// Bucket hooks, compared with direct calculations on the gradients of all ranks.
#include "tests/support/rank_errors.hpp"
#include "tests/support/reducer_model.hpp"
#include <ddprun/bucket_hooks.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>

namespace bucket_hooks_test {

using namespace ddprun;
using namespace ddprun::test;

namespace {

using Errors = std::vector<std::string>;
using MakeHook = std::function<BucketHook(ProcessGroup&)>;

/// Input bytes of the all-reduces of all ranks.
struct WireBytes {
  std::mutex mutex;
  std::size_t bytes = 0;

  ddprun::GroupOptions options() {
    ddprun::GroupOptions options;
    options.on_collective = [this](const CollectiveRecord& record) {
      const std::lock_guard lock(mutex);
      if (record.name == "all_reduce") bytes += record.bytes;
    };
    return options;
  }
};

/// Rounds to bfloat16 by definition: to nearest, ties to even.
float as_bfloat16(float value) {
  const double step = std::ldexp(1.0, std::ilogb(value) - 7);
  return value == 0 ? 0 : static_cast<float>(std::nearbyint(value / step) * step);
}

/// The same for float16's normal numbers.
float as_float16(float value) {
  const double step = std::ldexp(1.0, std::ilogb(value) - 10);
  return value == 0 ? 0 : static_cast<float>(std::nearbyint(value / step) * step);
}

/// A gradient that no half type represents exactly.
float third(int rank, int step, std::size_t element) {
  return static_cast<float>(1 + rank * 7 + step * 3 + static_cast<int>(element)) / 3.0F;
}

}  // namespace

TEST_SUITE("bucket hooks") {
  TEST_CASE("bucket hooks: a hook replaces the all-reduce of every bucket in order") {
    WireBytes wire;
    const auto errors = errors_of_ranks(
        2,
        [](ProcessGroup& group) {
          Model model;
          model.parameters[2].shape = {5, 2};
          std::vector<std::size_t> started;
          std::vector<std::size_t> completed;
          auto options = kSmallBuckets;
          options.hook = BucketHook{
              .name = "by hand",
              .start =
                  [&](const BucketView& bucket, Work& work) {
                    started.push_back(bucket.index);
                    require(bucket.is_last == (bucket.index == 2), "is_last");
                    require(bucket.op == ReduceOp::average, "op");
                    std::size_t elements = 0;
                    for (const auto& part : bucket.parts) elements += part.gradient.elements;
                    require(elements == bucket.gradients.elements, "elements");
                    if (bucket.index == 1) {
                      require(bucket.parts[0].parameter == 2, "parameter");
                      require(
                          std::vector(bucket.parts[0].shape.begin(), bucket.parts[0].shape.end()) ==
                              std::vector<std::size_t>{5, 2},
                          "shape");
                    }
                    work = group.all_reduce(bucket.gradients, ReduceOp::sum);
                  },
              .complete =
                  [&](const BucketView& bucket, ddprun::Deadline) {
                    completed.push_back(bucket.index);
                    auto* values = static_cast<float*>(bucket.gradients.data);
                    for (std::size_t i = 0; i < bucket.gradients.elements; ++i) values[i] *= 10;
                  }};
          GradientReducer reducer(group, model.parameters, {}, options);
          reducer.begin();
          for (std::size_t p = 0; p < 5; ++p) {
            add_gradient(reducer, group.rank(), 0, p);
            reducer.ready(p);
          }
          reducer.finish();
          require(started == std::vector<std::size_t>{0, 1, 2}, "started");
          require(completed == started, "completed");
          require_gradients(reducer, 2, 0, 0.1F);
        },
        wire.options());
    for (const auto& error : errors) CHECK(error == "");
    CHECK(wire.bytes == 2 * 100);
  }

  TEST_CASE("bucket hooks: finish() rethrows an exception of a hook") {
    for (const bool at_start : {true, false}) {
      const auto errors = errors_of_ranks(2, [at_start](ProcessGroup& group) {
        Model model;
        auto options = kSmallBuckets;
        options.hook =
            BucketHook{.name = "throws",
                       .start =
                           [&](const BucketView& bucket, Work& work) {
                             if (at_start) throw std::runtime_error("no luck");
                             work = group.all_reduce(bucket.gradients);
                           },
                       .complete = [](const BucketView&,
                                      ddprun::Deadline) { throw std::runtime_error("no luck"); }};
        GradientReducer reducer(group, model.parameters, {}, options);
        reducer.begin();
        backward(reducer, group.rank(), 0);
        reducer.finish();
      });
      CHECK(std::count(errors.begin(), errors.end(), "no luck") >= 1);
    }
  }

  TEST_CASE("bucket hooks: a failed hook on one rank does not block the others") {
    for (const bool at_start : {true, false}) {
      const auto errors = errors_of_ranks(3, [at_start](ProcessGroup& group) {
        Model model;
        auto options = kSmallBuckets;
        options.hook = BucketHook{.name = "fragile",
                                  .start =
                                      [&](const BucketView& bucket, Work& work) {
                                        if (at_start && group.rank() == 1)
                                          throw std::runtime_error("no luck");
                                        work = group.all_reduce(bucket.gradients);
                                      },
                                  .complete =
                                      [&](const BucketView& bucket, ddprun::Deadline deadline) {
                                        if (group.rank() == 1) throw std::runtime_error("no luck");
                                        group.all_reduce(bucket.gradients).wait(deadline);
                                      }};
        GradientReducer reducer(group, model.parameters, {}, options);
        reducer.begin();
        backward(reducer, group.rank(), 0);
        reducer.finish();
      });
      CHECK(errors[1] == "no luck");
      for (const std::size_t other : {0u, 2u}) {
        CHECK(errors[other].find("its bucket hook fragile failed") != std::string::npos);
      }
    }
  }

  TEST_CASE("bucket hooks: ranks with different hooks are rejected") {
    const auto errors = errors_of_ranks(2, [](ProcessGroup& group) {
      Model model;
      auto options = kSmallBuckets;
      options.hook = compress(group, group.rank() == 0 ? DataType::bfloat16 : DataType::float16);
      GradientReducer(group, model.parameters, {}, options);
    });
    for (const auto& error : errors) {
      CHECK(error.find(
                "option hook is \"compress float16\" on rank 1, \"compress bfloat16\" on rank 0") !=
            std::string::npos);
    }
  }

  TEST_CASE("bucket hooks: a hook detects the end of a step even if the last bucket is empty") {
    const auto errors = errors_of_ranks(2, [](ProcessGroup& group) {
      std::vector<float> values(3);
      ddprun::ReducerOptions options = {.first_bucket_bytes = 0, .bucket_bytes_cap = 0};
      options.op = ReduceOp::sum;
      options.hook = post_local_sgd(group, {.start_step = 1});
      GradientReducer reducer(
          group, {{"empty", as_buffer(values.data(), 0)}, {"w", as_buffer(values.data(), 3)}}, {},
          options);
      for (int step = 0; step < 2; ++step) {
        reducer.begin();
        gradient(reducer, 1)[2] = 1;
        reducer.ready(1);
        reducer.ready(0);
        reducer.finish();
        require(gradient(reducer, 1)[2] == (step == 0 ? 2 : 1), "step " + std::to_string(step));
      }
    });
    CHECK(errors == Errors(2));
  }

  TEST_CASE("bucket hooks: a group with a single rank does not call the hook") {
    auto groups = ProcessGroup::create_in_process(1);
    Model model;
    auto options = kSmallBuckets;
    options.hook = BucketHook{.name = "never", .start = [](const BucketView&, Work&) {
                                throw std::runtime_error("called");
                              }};
    GradientReducer reducer(groups[0], model.parameters, {}, options);
    reducer.begin();
    backward(reducer, 0, 0);
    CHECK_NOTHROW(reducer.finish());
    require_gradients(reducer, 1, 0);
  }

  TEST_CASE("bucket hooks: compression halves the bytes and rounds each value and the sum once") {
    for (const auto type : {DataType::bfloat16, DataType::float16}) {
      const auto round = type == DataType::bfloat16 ? as_bfloat16 : as_float16;
      for (const auto op : {ReduceOp::average, ReduceOp::sum}) {
        WireBytes wire;
        constexpr int kRanks = 4;
        constexpr int kSteps = 3;
        const auto errors = errors_of_ranks(
            kRanks,
            [=](ProcessGroup& group) {
              Model model;
              auto options = kSmallBuckets;
              options.op = op;
              options.rebuild_buckets = true;
              options.hook = compress(group, type);
              GradientReducer reducer(group, model.parameters, {}, options);
              for (int step = 0; step < kSteps; ++step) {
                reducer.begin();
                for (std::size_t p = 0; p < 5; ++p) {
                  const auto elements = gradient(reducer, p);
                  for (std::size_t i = 0; i < elements.size(); ++i) {
                    elements[i] = third(group.rank(), step, i);
                  }
                  reducer.ready(p);
                }
                reducer.finish();
                for (std::size_t p = 0; p < 5; ++p) {
                  const auto elements = gradient(reducer, p);
                  for (std::size_t i = 0; i < elements.size(); ++i) {
                    float sum = 0;
                    for (int r = 0; r < kRanks; ++r) sum += round(third(r, step, i));
                    if (op == ReduceOp::average) sum /= kRanks;
                    require(elements[i] == round(sum), "element");
                  }
                }
              }
            },
            wire.options());
        CHECK(errors == Errors(kRanks));
        // 25 elements.
        CHECK(wire.bytes == kRanks * kSteps * 25 * 2);
      }
    }
  }

  TEST_CASE("bucket hooks: an average compressed to float16 does not overflow through its sum") {
    const auto errors = errors_of_ranks(4, [](ProcessGroup& group) {
      Model model;
      ddprun::ReducerOptions options;
      options.hook = compress(group, DataType::float16);
      GradientReducer reducer(group, model.parameters, {}, options);
      reducer.begin();
      for (std::size_t p = 0; p < 5; ++p) {
        for (auto& element : gradient(reducer, p)) element = 60000;
        reducer.ready(p);
      }
      reducer.finish();
      require(gradient(reducer, 0)[0] == 60000, "average");
    });
    CHECK(errors == Errors(4));
  }

  TEST_CASE("bucket hooks: compression leaves gradients of other types than float32 unchanged") {
    const auto errors = errors_of_ranks(2, [](ProcessGroup& group) {
      std::vector<double> values(3);
      ddprun::ReducerOptions options;
      options.hook = compress(group, DataType::bfloat16);
      GradientReducer reducer(group, {{"w", as_buffer(values.data(), 3)}}, {}, options);
      reducer.begin();
      auto* elements = static_cast<double*>(reducer.gradient(0).data);
      elements[2] = 1.0 / 3;
      reducer.ready(0);
      reducer.finish();
      require(elements[2] == 1.0 / 3, "average");
    });
    CHECK(errors == Errors(2));
    auto groups = ProcessGroup::create_in_process(1);
    CHECK(what_of([&] { (void)compress(groups[0], DataType::int32); }) ==
          "bucket hook: compression to int32, must be float16 or bfloat16");
  }

  TEST_CASE("bucket hooks: post-local SGD averages globally until start_step and then locally") {
    constexpr int kStart = 2;
    for (const bool with_subgroup : {false, true}) {
      auto pairs = {ProcessGroup::create_in_process(2), ProcessGroup::create_in_process(2)};
      std::vector<ProcessGroup> subgroups;  // ranks 0 and 1, 2 and 3
      for (const auto& pair : pairs) subgroups.insert(subgroups.end(), pair.begin(), pair.end());
      const auto errors = errors_of_ranks(4, [&](ProcessGroup& group) {
        const int rank = group.rank();
        Model model;
        auto options = kSmallBuckets;
        options.op = ReduceOp::sum;
        ddprun::PostLocalSgdOptions local = {.start_step = kStart};
        if (with_subgroup) local.subgroup = subgroups[static_cast<std::size_t>(rank)];
        options.hook = post_local_sgd(group, local);
        GradientReducer reducer(group, model.parameters, {}, options);
        for (int step = 0; step < 5; ++step) {
          reducer.zero_gradients();
          reducer.begin();
          backward(reducer, rank, step);
          reducer.finish();
          for (std::size_t p = 0; p < 5; ++p) {
            float expected = 0;
            for (int r = 0; r < 4; ++r) {
              const bool counts =
                  step < kStart || r == rank || (with_subgroup && r / 2 == rank / 2);
              if (counts) expected += ddprun::test::share(r, step, p, 0);
            }
            require(gradient(reducer, p)[0] == expected, "step " + std::to_string(step));
          }
        }
      });
      CHECK(errors == Errors(4));
    }
  }

  TEST_CASE("bucket hooks: a model averager averages at a fixed interval from a given step") {
    const auto errors = errors_of_ranks(4, [](ProcessGroup& group) {
      std::vector<float> values(3);
      ddprun::ModelAverager averager(group, {as_buffer(values.data(), 3)}, 3, 2);
      std::vector<int> averaged;
      for (int step = 0; step < 9; ++step) {
        values.assign(3, static_cast<float>(group.rank() + step));
        if (averager.step()) averaged.push_back(step);
        const bool expected = step == 2 || step == 5 || step == 8;
        const float mean = 1.5F + static_cast<float>(step);
        require(values[2] == (expected ? mean : static_cast<float>(group.rank() + step)), "value");
      }
      require(averaged == std::vector<int>{2, 5, 8}, "steps");
    });
    CHECK(errors == Errors(4));
    auto groups = ProcessGroup::create_in_process(1);
    CHECK(what_of([&] { ddprun::ModelAverager(groups[0], {}, 0, 0); }) ==
          "model averager: a period of 0 steps, must be at least 1");
  }
}

}  // namespace bucket_hooks_test
