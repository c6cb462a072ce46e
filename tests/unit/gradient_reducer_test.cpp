#include "tests/support/rank_errors.hpp"
#include "tests/support/reducer_model.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <mutex>
#include <numeric>
#include <random>

namespace gradient_reducer_test {

using namespace ddprun;
using namespace ddprun::test;

namespace {

using Errors = std::vector<std::string>;

/// Names and bytes of a group's collectives, by rank.
struct Recorder {
  std::mutex mutex;
  std::vector<std::string> records;

  ddprun::GroupOptions options() {
    ddprun::GroupOptions options;
    options.on_collective = [this](const CollectiveRecord& record) {
      const std::lock_guard lock(mutex);
      records.push_back(record.name + " " + std::to_string(record.bytes));
    };
    return options;
  }
};

}  // namespace

TEST_SUITE("gradient reducer") {
  TEST_CASE("gradient reducer: gradients equal those of one rank with all the data") {
    for (const int ranks : {1, 2, 3, 4, 7, 8}) {
      for (const auto op : {ReduceOp::sum, ReduceOp::average}) {
        if (op == ReduceOp::average && ranks % 4 == 3) continue;  // thirds are not exact
        CAPTURE(ranks);
        const auto errors = errors_of_ranks(ranks, [=](ProcessGroup& group) {
          Model model;
          auto options = kSmallBuckets;
          options.op = op;
          GradientReducer reducer(group, model.parameters, {}, options);
          for (int step = 0; step < 5; ++step) {
            reducer.zero_gradients();
            reducer.begin();
            backward(reducer, group.rank(), step);
            reducer.finish();
            require_gradients(reducer, ranks, step,
                              op == ReduceOp::average ? static_cast<float>(ranks) : 1);
          }
        });
        CHECK(errors == Errors(errors.size()));
      }
    }
  }

  TEST_CASE("gradient reducer: gradients can be ready in any order and from many threads") {
    constexpr int kRanks = 3;
    constexpr unsigned kSeed = 7;
    const auto errors = errors_of_ranks(kRanks, [](ProcessGroup& group) {
      Model model;
      auto options = kSmallBuckets;
      options.op = ReduceOp::sum;
      GradientReducer reducer(group, model.parameters, {}, options);
      std::mt19937 random(kSeed + static_cast<unsigned>(group.rank()));
      for (int step = 0; step < 20; ++step) {
        std::vector<std::size_t> order(5);
        std::iota(order.begin(), order.end(), std::size_t{0});
        std::shuffle(order.begin(), order.end(), random);
        reducer.zero_gradients();
        reducer.begin();
        std::vector<std::thread> threads;
        for (std::size_t t = 0; t < 3; ++t) {
          threads.emplace_back([&, t] {
            for (std::size_t i = t; i < order.size(); i += 3) {
              add_gradient(reducer, group.rank(), step, order[i]);
              reducer.ready(order[i]);
            }
          });
        }
        for (auto& thread : threads) thread.join();
        reducer.finish();
        require_gradients(reducer, kRanks, step);
      }
    });
    CHECK(errors == Errors(kRanks));
  }

  TEST_CASE("gradient reducer: buckets are launched in order even if a later one is ready first") {
    Recorder recorder;
    const auto errors = errors_of_ranks(
        2,
        [](ProcessGroup& group) {
          Model model;
          GradientReducer reducer(group, model.parameters, {}, kSmallBuckets);
          reducer.begin();
          for (std::size_t p = 0; p < 5; ++p) reducer.ready(p);
          const auto timeline = reducer.finish();
          require(timeline.buckets.size() == 3, "buckets");
          require(timeline.buckets[2].ready_seconds <= timeline.buckets[0].ready_seconds, "ready");
          require(timeline.buckets[0].launched_seconds <= timeline.buckets[2].launched_seconds,
                  "launched");
        },
        recorder.options());
    CHECK(errors == Errors(2));
    // The records of both ranks are interleaved, but have the same order.
    const std::vector<std::string> expected = {"all_gather 16", "broadcast 100", "all_reduce 20",
                                               "all_reduce 40", "all_reduce 40"};
    REQUIRE(recorder.records.size() == 2 * expected.size());
    for (const auto& record : expected) {
      CHECK(std::count(recorder.records.begin(), recorder.records.end(), record) ==
            2 * std::count(expected.begin(), expected.end(), record));
    }
    const auto first_of = [&](const char* record) {
      return std::find(recorder.records.begin(), recorder.records.end(), record);
    };
    CHECK(first_of("all_reduce 20") < first_of("all_reduce 40"));
  }

  TEST_CASE("gradient reducer: the toy model uses one collective per step") {
    Recorder recorder;
    const auto errors = errors_of_ranks(
        2,
        [](ProcessGroup& group) {
          std::vector<float> values(165);
          std::vector<Parameter> parameters;
          std::size_t first = 0;
          for (const std::size_t count : {100u, 10u, 50u, 5u}) {
            parameters.push_back({"p" + std::to_string(first), as_buffer(&values[first], count)});
            first += count;
          }
          GradientReducer reducer(group, parameters);
          for (int step = 0; step < 2; ++step) {
            reducer.begin();
            for (std::size_t p = 4; p-- > 0;) reducer.ready(p);
            reducer.finish();
          }
        },
        recorder.options());
    CHECK(errors == Errors(2));
    std::sort(recorder.records.begin(), recorder.records.end());
    CHECK(recorder.records == std::vector<std::string>{"all_gather 16", "all_gather 16",
                                                       "all_reduce 660", "all_reduce 660",
                                                       "all_reduce 660", "all_reduce 660",
                                                       "broadcast 660", "broadcast 660"});
  }

  TEST_CASE("gradient reducer: unsynchronised steps accumulate without communication") {
    Recorder recorder;
    const auto errors = errors_of_ranks(
        2,
        [](ProcessGroup& group) {
          Model model;
          auto options = kSmallBuckets;
          options.op = ReduceOp::sum;
          options.verify_parameters = false;
          options.broadcast_state = false;
          GradientReducer reducer(group, model.parameters, {}, options);
          for (const bool synchronise : {false, false, true}) {
            reducer.begin(synchronise);
            backward(reducer, group.rank(), 1);
            const auto timeline = reducer.finish();
            require(timeline.buckets.size() == (synchronise ? 3 : 0), "timeline");
            require(timeline.exposed_seconds() >= 0, "exposed");
          }
          const auto elements = gradient(reducer, 2);
          for (std::size_t i = 0; i < elements.size(); ++i) {
            require(elements[i] == 3 * sum_of_shares(2, 1, 2, i), "sum over three passes");
          }
        },
        recorder.options());
    CHECK(errors == Errors(2));
    CHECK(recorder.records.size() == 2 * 3);
  }

  TEST_CASE("gradient reducer: a parameter unused on some ranks counts as zero there") {
    const auto errors = errors_of_ranks(2, [](ProcessGroup& group) {
      Model model;
      auto options = kSmallBuckets;
      options.op = ReduceOp::sum;
      options.find_unused_parameters = true;
      GradientReducer reducer(group, model.parameters, {}, options);
      for (int step = 0; step < 3; ++step) {
        // Not zeroed: the last step's value in an unused gradient must not be sent again. p0: only
        // rank 0 uses it, p1: no rank, p2: only rank 1, p3 and p4: both.
        reducer.begin();
        for (std::size_t p = 5; p-- > 0;) {
          if (p == 1 || (p == 0 && group.rank() == 1) || (p == 2 && group.rank() == 0)) continue;
          for (auto& element : gradient(reducer, p)) element = 1;
          reducer.ready(p);
        }
        reducer.finish();
        const float expected[] = {1, 0, 1, 2, 2};
        for (std::size_t p = 0; p < 5; ++p) {
          require(gradient(reducer, p)[0] == expected[p], "gradient " + std::to_string(p));
          require(reducer.is_used(p) == (p != 1), "used " + std::to_string(p));
        }
      }
    });
    CHECK(errors == Errors(2));
  }

  TEST_CASE("gradient reducer: an accumulated gradient counts even if unused in the last step") {
    for (const int ranks : {1, 2}) {
      const auto errors = errors_of_ranks(ranks, [ranks](ProcessGroup& group) {
        Model model;
        auto options = kSmallBuckets;
        options.op = ReduceOp::sum;
        options.find_unused_parameters = true;
        GradientReducer reducer(group, model.parameters, {}, options);
        reducer.begin(false);
        backward(reducer, group.rank(), 0);
        reducer.finish();
        reducer.begin();
        reducer.finish();
        require_gradients(reducer, ranks, 0);
        require(reducer.is_used(0), "used");
        reducer.begin();
        reducer.finish();
        require(!reducer.is_used(0), "unused in the step after");
        require(gradient(reducer, 0)[0] == 0, "zero in the step after");
        reducer.begin(false);
        backward(reducer, group.rank(), 0);
        reducer.finish();
        reducer.zero_gradients();
        reducer.begin();
        reducer.finish();
        require(!reducer.is_used(0), "unused when what was accumulated is thrown away");
      });
      CHECK(errors == Errors(errors.size()));
    }
  }

  TEST_CASE("gradient reducer: all ranks start with rank 0's parameters and zero gradients") {
    const auto errors = errors_of_ranks(3, [](ProcessGroup& group) {
      const auto rank = static_cast<float>(group.rank());
      Model model(5 + rank);
      std::vector<float> mean(4, 7 + rank);
      std::vector<std::int32_t> batches = {9 + group.rank()};
      const GradientReducer reducer(
          group, model.parameters,
          {as_buffer(mean.data(), mean.size()), as_buffer(batches.data(), batches.size()),
           as_buffer(mean.data(), 0)},
          kSmallBuckets);
      for (const auto& values : model.values) {
        require(values == std::vector<float>(values.size(), 5), "parameters");
      }
      require(mean == std::vector<float>(4, 7) && batches[0] == 9, "buffers");
      for (std::size_t p = 0; p < 5; ++p) require(gradient(reducer, p)[0] == 0, "gradients");
    });
    CHECK(errors == Errors(3));
  }

  TEST_CASE("gradient reducer: parameters are not broadcast if broadcast_state is false") {
    const auto errors = errors_of_ranks(2, [](ProcessGroup& group) {
      Model model(static_cast<float>(group.rank()));
      auto options = kSmallBuckets;
      options.broadcast_state = false;
      const GradientReducer reducer(group, model.parameters, {}, options);
      require(model.values[0][0] == static_cast<float>(group.rank()), "parameters");
    });
    CHECK(errors == Errors(2));
  }

  TEST_CASE("gradient reducer: a single rank calls no collective") {
    Recorder recorder;
    const auto errors = errors_of_ranks(
        1,
        [](ProcessGroup& group) {
          Model model;
          auto options = kSmallBuckets;
          options.find_unused_parameters = true;
          std::int32_t batches = 3;
          GradientReducer reducer(group, model.parameters, {as_buffer(&batches, 1)}, options);
          reducer.begin();
          backward(reducer, 0, 1);
          const auto timeline = reducer.finish();
          require_gradients(reducer, 1, 1);
          require(timeline.buckets.size() == 3, "timeline");
        },
        recorder.options());
    CHECK(errors == Errors(1));
    CHECK(recorder.records.empty());
  }

  TEST_CASE("gradient reducer: types have separate buckets and a parameter may be empty") {
    const auto errors = errors_of_ranks(2, [](ProcessGroup& group) {
      std::vector<float> single(4);
      std::vector<double> twice(3);
      const std::vector<Parameter> parameters = {
          {"single", as_buffer(single.data(), single.size())},
          {"none", as_buffer(single.data(), 0)},
          {"double", as_buffer(twice.data(), twice.size())},
          {"no doubles", as_buffer(twice.data(), 0)}};
      GradientReducer reducer(group, parameters, {},
                              {.first_bucket_bytes = 0, .bucket_bytes_cap = 0});
      reducer.begin();
      for (std::size_t p = 4; p-- > 0;) {
        const Buffer buffer = reducer.gradient(p);
        require(buffer.elements == parameters[p].values.elements, "elements");
        require(buffer.type == parameters[p].values.type, "type");
        for (std::size_t i = 0; i < buffer.elements; ++i) {
          if (p == 0) static_cast<float*>(buffer.data)[i] = static_cast<float>(group.rank() * 2);
          if (p == 2) static_cast<double*>(buffer.data)[i] = 0.25 * group.rank();
        }
        reducer.ready(p);
      }
      require(reducer.finish().buckets.size() == 4, "buckets");
      require(gradient(reducer, 0)[3] == 1, "float average");
      require(static_cast<double*>(reducer.gradient(2).data)[2] == 0.125, "double average");
    });
    CHECK(errors == Errors(2));
  }

  TEST_CASE("gradient reducer: buckets are aligned to cache lines and have no gaps") {
    auto groups = ProcessGroup::create_in_process(1);
    Model model;
    const GradientReducer reducer(groups[0], model.parameters, {}, kSmallBuckets);
    for (const auto& bucket : reducer.plan().buckets) {
      const auto* at = static_cast<std::byte*>(reducer.gradient(bucket.parameters[0]).data);
      CHECK(reinterpret_cast<std::uintptr_t>(at) % 64 == 0);
      for (const auto index : bucket.parameters) {
        CHECK(static_cast<std::byte*>(reducer.gradient(index).data) == at);
        at += reducer.gradient(index).bytes();
      }
    }
  }

  TEST_CASE("gradient reducer: the time stamps of a step are in order") {
    const auto errors = errors_of_ranks(2, [](ProcessGroup& group) {
      Model model;
      GradientReducer reducer(group, model.parameters, {}, kSmallBuckets);
      reducer.begin();
      backward(reducer, group.rank(), 0);
      const auto timeline = reducer.finish();
      for (const auto& bucket : timeline.buckets) {
        require(0 <= bucket.ready_seconds && bucket.ready_seconds <= bucket.launched_seconds &&
                    bucket.launched_seconds <= bucket.done_seconds &&
                    bucket.done_seconds <= timeline.finished_seconds,
                "bucket " + std::to_string(bucket.index));
        require(bucket.bytes == (bucket.index == 0 ? 20 : 40), "bytes");
      }
      require(timeline.finish_called_seconds <= timeline.finished_seconds, "finish");
    });
    CHECK(errors == Errors(2));
  }

  TEST_CASE("gradient reducer: a reducer can be moved between and within steps") {
    auto groups = ProcessGroup::create_in_process(1);
    Model model;
    GradientReducer first(groups[0], model.parameters, {}, kSmallBuckets);
    first.begin();
    const void* memory = first.gradient(0).data;
    GradientReducer second = std::move(first);
    CHECK(second.gradient(0).data == memory);
    for (std::size_t p = 0; p < 5; ++p) second.ready(p);
    CHECK_NOTHROW(second.finish());
  }
}

}  // namespace gradient_reducer_test
