// PowerSGD where buckets are on a device, against PowerSGD in the memory of the CPU.
#include "tests/support/device_ranks.hpp"
#include "tests/support/largest_difference.hpp"
#include "tests/support/rank_threads.hpp"
#include "tests/support/reducer_model.hpp"
#include <ddprun/bucket_hooks.hpp>
#include <ddprun/gradient_reducer.hpp>

#include <doctest/doctest.h>

#include <future>
#include <latch>
#include <mutex>
#include <random>
#include <string>
#include <vector>

namespace device_power_sgd_test {

// Where a sanitizer is linked in.
extern "C" [[gnu::weak]] void __sanitizer_set_death_callback(void (*callback)());

using namespace ddprun;
using namespace ddprun::test;

namespace {

using Gradients = std::vector<float>;  // of all parameters, one after the other

constexpr int kRanks = 2;

// Emulated kernels take a hundred times as long under sanitizers, which need not see every option.
const bool kIsSlow = __sanitizer_set_death_callback != nullptr;
const int kSteps = kIsSlow ? 2 : 3;

/// Two matrices, one of three dimensions, and what travels as it is, in two buckets.
struct Layers {
  explicit Layers(Device device = {}) {
    const std::vector<std::vector<std::size_t>> shapes = {{12, 20}, {7}, {140, 6}, {5, 4, 9}};
    for (const auto& shape : shapes) {
      std::size_t elements = 1;
      for (const std::size_t length : shape) elements *= length;
      auto& memory = values.emplace_back(elements);
      Parameter parameter{.name = "p" + std::to_string(parameters.size())};
      parameter.values = as_buffer(memory.data(), elements);
      parameter.values.device = device;
      parameter.shape = shape;
      parameters.push_back(parameter);
    }
  }
  std::vector<std::vector<float>> values;
  std::vector<Parameter> parameters;
};

const ReducerOptions kTwoBuckets{.first_bucket_bytes = 3000, .bucket_bytes_cap = 3000};

void fill(std::span<float> elements, int rank, int step, std::size_t parameter) {
  std::mt19937 random(static_cast<unsigned>(1000 * step + 10 * rank) +
                      static_cast<unsigned>(parameter));
  for (float& element : elements) element = static_cast<float>(random() % 2001) / 1000 - 1;
}

void append(Gradients& all, const GradientReducer& reducer) {
  for (std::size_t p = 0; p < 4; ++p) {
    const auto elements = gradient(reducer, p);
    all.insert(all.end(), elements.begin(), elements.end());
  }
}

Gradients train_on_host(ProcessGroup& group, const ReducerOptions& options) {
  Layers layers;
  GradientReducer reducer(group, layers.parameters, {}, options);
  Gradients all;
  for (int step = 0; step < kSteps; ++step) {
    reducer.begin();
    for (std::size_t p = 4; p-- > 0;) {
      fill(gradient(reducer, p), group.rank(), step, p);
      reducer.ready(p);
    }
    reducer.finish();
    append(all, reducer);
  }
  return all;
}

void backward_on(const Stream& stream, GradientReducer& reducer, int rank, int step) {
  reducer.begin();
  for (std::size_t p = 4; p-- > 0;) {
    launch_on(stream.get(),
              [elements = gradient(reducer, p), rank, step, p] { fill(elements, rank, step, p); });
    reducer.ready(p, stream.get());
  }
}

/// The steps are given to the stream one after the other, with nothing in between.
Gradients train_on_device(ProcessGroup& group, const ReducerOptions& options) {
  Layers layers(kDevice);
  const Stream stream;
  group.set_stream(stream.get());
  GradientReducer reducer(group, layers.parameters, {}, options);
  Gradients all;
  for (int step = 0; step < kSteps; ++step) {
    backward_on(stream, reducer, group.rank(), step);
    reducer.finish(stream.get());
    launch_on(stream.get(), [&] { append(all, reducer); });
  }
  reducer.synchronise();
  fake_cuda().stream_synchronize(stream.get());
  return all;
}

using Train = Gradients (*)(ProcessGroup& group, const ReducerOptions& options);

/// What each rank has.
std::vector<Gradients> trained(std::vector<ProcessGroup> groups, const PowerSgdOptions& power_sgd,
                               ReduceOp op, const Train& train) {
  std::vector<Gradients> all(groups.size());
  run_ranks(std::move(groups), [&](ProcessGroup& group) {
    auto options = kTwoBuckets;
    options.op = op;
    options.hook = ddprun::power_sgd(group, power_sgd);
    all[static_cast<std::size_t>(group.rank())] = train(group, options);
  });
  return all;
}

std::string failure_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return "no failure";
}

}  // namespace

TEST_SUITE("PowerSGD on a device") {
  TEST_CASE("it gives what it gives on the CPU, on all ranks the same bits") {
    std::vector<PowerSgdOptions> all_options{{.rank = 2, .start_step = 0}};
    std::vector<ReduceOp> ops{ReduceOp::average};
    if (!kIsSlow) {
      all_options.push_back({.rank = 1, .start_step = 1});
      all_options.push_back({.rank = 2, .start_step = 0, .error_feedback = false});
      all_options.push_back({.rank = 2, .start_step = 0, .warm_start = false, .seed = 9});
      ops.push_back(ReduceOp::sum);
    }
    for (const auto& options : all_options) {
      for (const auto op : ops) {
        const CleanDevices clean;
        auto given = options;
        given.min_compression_rate = 1;
        const auto expected =
            trained(ProcessGroup::create_in_process(kRanks), given, op, train_on_host);
        const auto actual = trained(device_ranks(kRanks), given, op, train_on_device);
        // Sums of up to 140 float32 in another order, over some steps of feedback.
        CHECK(largest_difference(actual[0], expected[0]) < 1e-4);
        CHECK(actual[1] == actual[0]);
      }
    }
  }

  TEST_CASE("a bucket is sent in fewer bytes") {
    const CleanDevices clean;
    std::mutex mutex;
    std::vector<std::size_t> bytes;
    GroupOptions options;
    options.on_collective = [&](const CollectiveRecord& record) {
      const std::lock_guard lock(mutex);
      if (record.name == "all_reduce") bytes.push_back(record.bytes);
    };
    trained(device_ranks(2, options), {.rank = 1, .start_step = 0}, ReduceOp::average,
            train_on_device);
    // P and Q of 12 x 20, of 140 x 6 and of 5 x 36, and the 7 others.
    const std::size_t whole = std::size_t{12 * 20 + 7} * 4;
    CHECK(std::count(bytes.begin(), bytes.end(), 12 * 4) == 2 * kSteps);
    CHECK(std::count(bytes.begin(), bytes.end(), 7 * 4) == 2 * kSteps);
    CHECK(std::count(bytes.begin(), bytes.end(), whole) == 0);
  }

  TEST_CASE("the host waits for nothing") {
    const CleanDevices clean;
    std::promise<void> may_go_on;
    const auto held = may_go_on.get_future().share();
    std::latch have_finished(2);
    run_ranks(device_ranks(2), [&](ProcessGroup& group) {
      Layers layers(kDevice);
      const Stream stream;
      group.set_stream(stream.get());
      auto options = kTwoBuckets;
      options.hook = power_sgd(group, {.rank = 1, .start_step = 0, .warm_start = false});
      GradientReducer reducer(group, layers.parameters, {}, options);
      launch_on(stream.get(), [held] { held.wait(); });
      for (int step = 0; step < kSteps; ++step) {
        backward_on(stream, reducer, group.rank(), step);
        reducer.finish(stream.get());
      }
      have_finished.arrive_and_wait();
      if (group.rank() == 0) may_go_on.set_value();
      reducer.synchronise();
      fake_cuda().stream_synchronize(stream.get());
    });
  }

  TEST_CASE("what fails after the first of its collectives is thrown by whoever waits") {
    for (const bool by_stream : {true, false}) {
      CAPTURE(by_stream);
      const CleanDevices clean;
      run_ranks(device_ranks(2), [&](ProcessGroup& group) {
        Layers layers(kDevice);
        const Stream stream;
        group.set_stream(stream.get());
        auto options = kTwoBuckets;
        options.hook = power_sgd(group, {.rank = 1, .start_step = 0});
        const auto complete = options.hook->complete;
        options.hook->complete = [&](const BucketView& bucket, Deadline deadline) {
          // What has been called before has ended: the next collective is the second one.
          if (bucket.is_last) {
            fake_cuda().stream_synchronize(stream.get());
            if (group.rank() == 1) nccl_faults().collective = ncclSystemError;
          }
          complete(bucket, deadline);
        };
        GradientReducer reducer(group, layers.parameters, {}, options);
        CHECK(failure_of([&] {
                backward_on(stream, reducer, group.rank(), 0);
                if (!by_stream) {
                  reducer.finish();
                } else {
                  reducer.finish(stream.get());
                  reducer.synchronise();
                }
              }) != "no failure");
      });
    }
  }
}

}  // namespace device_power_sgd_test
