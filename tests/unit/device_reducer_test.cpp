// The gradient reducer with parameters on a device, with the fake devices, streams and NCCL.
#include "tests/support/device_ranks.hpp"
#include "tests/support/rank_threads.hpp"
#include "tests/support/reducer_model.hpp"
#include <ddprun/bucket_hooks.hpp>
#include <ddprun/gradient_reducer.hpp>

#include <doctest/doctest.h>

#include <future>
#include <latch>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace device_reducer_test {

using namespace ddprun;
using namespace ddprun::test;

namespace {

/// Five parameters in memory that counts as the device's.
struct DeviceModel : Model {
  explicit DeviceModel(float fill = 0) : Model(fill) {
    for (auto& parameter : parameters) parameter.values.device = kDevice;
  }
};

const std::string kRight = "as they should be";

/// Kernel of the backward pass.
void add_on(const Stream& stream, GradientReducer& reducer, int rank, int step, std::size_t p) {
  launch_on(stream.get(), [elements = gradient(reducer, p), rank, step, p] {
    for (std::size_t i = 0; i < elements.size(); ++i) elements[i] += share(rank, step, p, i);
  });
  reducer.ready(p, stream.get());
}

void backward_on(const Stream& stream, GradientReducer& reducer, int rank, int step) {
  for (std::size_t p = 5; p-- > 0;) add_on(stream, reducer, rank, step, p);
}

/// Values read by a kernel of the optimizer, available after it has run.
std::future<std::string> look_on(const Stream& stream, const GradientReducer& reducer, int ranks,
                                 int step, float divisor) {
  auto seen = std::make_shared<std::promise<std::string>>();
  std::vector<std::span<float>> gradients;
  for (std::size_t p = 0; p < 5; ++p) gradients.push_back(gradient(reducer, p));
  launch_on(stream.get(), [gradients, seen, ranks, step, divisor] {
    for (std::size_t p = 0; p < 5; ++p) {
      for (std::size_t i = 0; i < gradients[p].size(); ++i) {
        if (gradients[p][i] == sum_of_shares(ranks, step, p, i) / divisor) continue;
        return seen->set_value("parameter " + std::to_string(p) + " is wrong");
      }
    }
    seen->set_value(kRight);
  });
  return seen->get_future();
}

/// A few steps, each of which waits for the one before on the device only.
void train(ProcessGroup& group, const ReducerOptions& options) {
  DeviceModel model;
  const Stream stream;
  group.set_stream(stream.get());
  GradientReducer reducer(group, model.parameters, {}, options);
  const float divisor = options.op == ReduceOp::average ? static_cast<float>(group.size()) : 1;
  std::vector<std::future<std::string>> seen;
  for (int step = 0; step < 5; ++step) {
    reducer.zero_gradients();
    reducer.begin();
    backward_on(stream, reducer, group.rank(), step);
    reducer.finish(stream.get());
    seen.push_back(look_on(stream, reducer, group.size(), step, divisor));
  }
  reducer.synchronise();
  for (auto& step : seen) CHECK(step.get() == kRight);
}

/// Averages, then takes the maximum of the results, which are equal on all ranks.
BucketHook two_collectives(ProcessGroup& group) {
  const auto second = std::make_shared<std::vector<Work>>();
  return {.name = "two collectives",
          .start = [&group](const BucketView& bucket,
                            Work& work) { work = group.all_reduce(bucket.gradients, bucket.op); },
          .complete =
              [&group, second](const BucketView& bucket, Deadline /*deadline*/) {
                second->push_back(group.all_reduce(bucket.gradients, ReduceOp::max));
                second->back().hold(group.stream());
              },
          .await =
              [second](Deadline deadline) {
                for (const auto& work : *second) work.wait(deadline);
                second->clear();
              }};
}

std::string failure_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return std::string(to_string(error.code())) + ": " + error.what();
  }
  return "no failure";
}

}  // namespace

TEST_SUITE("gradient reducer on a device") {
  TEST_CASE("device reducer: gradients equal those of one rank with all the data") {
    for (const int ranks : {1, 2, 4}) {
      for (const auto op : {ReduceOp::sum, ReduceOp::average}) {
        CAPTURE(ranks);
        const CleanDevices clean;
        auto options = kSmallBuckets;
        options.op = op;
        run_ranks(device_ranks(ranks), [&](ProcessGroup& group) { train(group, options); });
      }
    }
  }

  TEST_CASE("device reducer: gradients do not depend on the reducer's options") {
    std::vector<ReducerOptions> all(4, kSmallBuckets);
    all[0].pre_divide = true;
    all[1].rebuild_buckets = true;
    all[2].find_unused_parameters = true;
    all[3].static_graph = true;
    for (const auto& options : all) {
      CAPTURE(&options - all.data());
      const CleanDevices clean;
      run_ranks(device_ranks(2), [&](ProcessGroup& group) { train(group, options); });
    }
    const CleanDevices clean;
    run_ranks(device_ranks(2), [&](ProcessGroup& group) {
      auto options = kSmallBuckets;
      options.hook = compress(group, DataType::float16);
      train(group, options);
    });
  }

  TEST_CASE("device reducer: a hook can start a second collective for each bucket") {
    const CleanDevices clean;
    run_ranks(device_ranks(2), [](ProcessGroup& group) {
      auto options = kSmallBuckets;
      options.hook = two_collectives(group);
      train(group, options);
    });
  }

  TEST_CASE("device reducer: finish() and synchronise() throw the error of a second collective") {
    for (const bool by_stream : {true, false}) {
      CAPTURE(by_stream);
      const CleanDevices clean;
      run_ranks(device_ranks(2), [by_stream](ProcessGroup& group) {
        DeviceModel model;
        const Stream stream;
        group.set_stream(stream.get());
        auto options = kSmallBuckets;
        options.hook = two_collectives(group);
        options.hook->complete = [&, complete = options.hook->complete](const BucketView& bucket,
                                                                        Deadline deadline) {
          // Earlier collectives have ended, so that only the next one fails.
          if (bucket.is_last) {
            fake_cuda().stream_synchronize(stream.get());
            if (group.rank() == 1) nccl_faults().collective = ncclSystemError;
          }
          complete(bucket, deadline);
        };
        GradientReducer reducer(group, model.parameters, {}, options);
        reducer.begin();
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

  TEST_CASE("device reducer: a step does not block the host for kernels or other ranks") {
    const CleanDevices clean;
    std::promise<void> may_continue;
    const auto held = may_continue.get_future().share();
    std::latch have_finished(2);
    run_ranks(device_ranks(2), [&](ProcessGroup& group) {
      DeviceModel model;
      const Stream stream;
      group.set_stream(stream.get());
      GradientReducer reducer(group, model.parameters, {}, kSmallBuckets);
      reducer.begin();
      launch_on(stream.get(), [held] { held.wait(); });
      backward_on(stream, reducer, group.rank(), 0);
      reducer.finish(stream.get());
      auto seen = look_on(stream, reducer, 2, 0, 2);
      CHECK(seen.wait_for(std::chrono::seconds(0)) == std::future_status::timeout);
      have_finished.arrive_and_wait();
      if (group.rank() == 0) may_continue.set_value();
      CHECK(seen.get() == kRight);
    });
  }

  TEST_CASE("device reducer: gradients can be produced and used on different streams") {
    const CleanDevices clean;
    run_ranks(device_ranks(2), [](ProcessGroup& group) {
      DeviceModel model;
      const std::vector<Stream> makers(3);
      const Stream user;
      group.set_stream(user.get());
      GradientReducer reducer(group, model.parameters, {}, kSmallBuckets);
      for (int step = 0; step < 5; ++step) {
        reducer.zero_gradients();
        fake_cuda().stream_synchronize(user.get());
        reducer.begin();
        for (std::size_t p = 0; p < 5; ++p) add_on(makers[p % 3], reducer, group.rank(), step, p);
        reducer.finish(user.get());
        CHECK(look_on(user, reducer, 2, step, 2).get() == kRight);
      }
    });
  }

  TEST_CASE("device reducer: the host can read the gradients after finish()") {
    const CleanDevices clean;
    run_ranks(device_ranks(2), [](ProcessGroup& group) {
      DeviceModel model;
      const Stream stream;
      GradientReducer reducer(group, model.parameters, {}, kSmallBuckets);
      reducer.begin();
      backward_on(stream, reducer, group.rank(), 0);
      reducer.finish();
      require_gradients(reducer, 2, 0, 2);
    });
  }

  TEST_CASE("device reducer: gradients in the caller's memory are reduced in place") {
    for (const int ranks : {1, 2}) {
      const CleanDevices clean;
      run_ranks(device_ranks(ranks), [&](ProcessGroup& group) {
        DeviceModel model;
        std::vector<std::vector<float>> own;
        for (auto& parameter : model.parameters) {
          own.emplace_back(parameter.values.elements, static_cast<float>(group.rank()));
          parameter.gradient = on_device(own.back());
        }
        const Stream stream;
        group.set_stream(stream.get());
        GradientReducer reducer(group, model.parameters, {}, kSmallBuckets);
        reducer.begin();
        for (std::size_t p = 0; p < 5; ++p) {
          launch_on(stream.get(), [&own, p] {
            for (auto& element : own[p]) element += 2;
          });
          reducer.ready(p);
        }
        reducer.finish();
        const float mean = 2 + static_cast<float>(ranks - 1) / 2;
        for (const auto& gradient : own)
          CHECK(gradient == std::vector<float>(gradient.size(), mean));
      });
    }
  }

  TEST_CASE("device reducer: all ranks start with rank 0's parameters and buffers") {
    const CleanDevices clean;
    run_ranks(device_ranks(3), [](ProcessGroup& group) {
      DeviceModel model(static_cast<float>(group.rank() + 5));
      std::vector<std::int64_t> counter(1, group.rank());
      std::vector<float> on_host(3, static_cast<float>(group.rank()));
      std::vector<Buffer> state = {on_device(counter), as_buffer(on_host.data(), on_host.size())};
      GradientReducer reducer(group, model.parameters, state, kSmallBuckets);
      reducer.synchronise();
      group.barrier().wait();
      for (const auto& values : model.values) CHECK(values == std::vector<float>(values.size(), 5));
      CHECK(counter[0] == 0);
      CHECK(on_host == std::vector<float>(3, 0));
    });
  }

  TEST_CASE("device reducer: the drift check detects one differing bit in device memory") {
    const CleanDevices clean;
    run_ranks(device_ranks(2), [](ProcessGroup& group) {
      DeviceModel model;
      auto options = kSmallBuckets;
      options.drift_check_steps = 1;
      GradientReducer reducer(group, model.parameters, {}, options);
      const Stream stream;
      const auto step = [&](int number) {
        reducer.begin();
        backward_on(stream, reducer, group.rank(), number);
        reducer.finish(stream.get());
      };
      step(0);
      reducer.synchronise();
      if (group.rank() == 1) model.values[3][2] = 1e-20F;
      const auto failure = failure_of([&] { step(1); });
      CHECK(failure.find("\"p3\"") != std::string::npos);
      reducer.synchronise();
    });
  }

  TEST_CASE("device reducer: late failures are thrown by synchronise() and the next step") {
    const CleanDevices clean;
    std::latch have_finished(2);
    std::latch has_failed(1);
    run_ranks(device_ranks(2), [&](ProcessGroup& group) {
      DeviceModel model;
      const Stream stream;
      std::optional<GradientReducer> reducer;
      reducer.emplace(group, model.parameters, std::vector<Buffer>{}, kSmallBuckets);
      std::promise<void> may_continue;
      reducer->begin();
      // The kernels of rank 1 never complete.
      if (group.rank() == 1)
        launch_on(stream.get(), [&, held = may_continue.get_future().share()] { held.wait(); });
      backward_on(stream, *reducer, group.rank(), 0);
      reducer->finish(stream.get());
      have_finished.arrive_and_wait();
      if (group.rank() == 1) {
        group.abort("asked to");
        has_failed.wait();
        return may_continue.set_value();
      }
      const auto failure = failure_of([&] { reducer->synchronise(); });
      has_failed.count_down();
      CHECK(failure.find("asked to") != std::string::npos);
      reducer->begin();
      CHECK(failure_of([&] {
              backward_on(stream, *reducer, group.rank(), 1);
              reducer->finish(stream.get());
            }) != "no failure");
    });
  }

  TEST_CASE("device reducer: unsupported options are rejected") {
    const CleanDevices clean;
    run_ranks(device_ranks(1), [](ProcessGroup& group) {
      const auto refusal_of = [&](const std::vector<Parameter>& parameters) {
        return what_of([&] { const GradientReducer reducer(group, parameters); });
      };
      DeviceModel mixed;
      mixed.parameters[1].values.device = {};
      CHECK(refusal_of(mixed.parameters) ==
            "GradientReducer: parameter \"p1\" is in the memory of the CPU, the first one on CUDA "
            "device 1");
      DeviceModel elsewhere;
      for (auto& parameter : elsewhere.parameters) parameter.values.device.index = 0;
      CHECK(refusal_of(elsewhere.parameters) ==
            "GradientReducer: parameter \"p0\" is on CUDA device 0, and the group's backend "
            "reaches device 1");
      DeviceModel with_own;
      std::vector<float> own(3);
      with_own.parameters[0].gradient = as_buffer(own.data(), own.size());
      CHECK(refusal_of(with_own.parameters) ==
            "GradientReducer: the gradient of parameter \"p0\" is in the memory of the CPU, its "
            "values on CUDA device 1");
    });
    run_ranks(1, [](ProcessGroup& group) {
      DeviceModel model;
      CHECK(what_of([&] { const GradientReducer reducer(group, model.parameters); }) ==
            "GradientReducer: parameter \"p0\" is on CUDA device 1, and the group's backend "
            "reaches none");
    });
  }
}

}  // namespace device_reducer_test
