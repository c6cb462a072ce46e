// Reducer steps captured into graphs, and errors of ranks when one of them dies during launches,
// with the fake devices and NCCL.
#include "tests/support/captures.hpp"
#include "tests/support/device_ranks.hpp"
#include "tests/support/failure_text.hpp"
#include "tests/support/rank_threads.hpp"
#include "tests/support/reducer_model.hpp"
#include <ddprun/bucket_hooks.hpp>
#include <ddprun/gradient_reducer.hpp>

#include <doctest/doctest.h>

#include <functional>
#include <latch>
#include <optional>
#include <string>
#include <vector>

namespace captured_reducer_test {

using namespace ddprun;
using namespace ddprun::test;

namespace {

/// Five parameters in memory that counts as the device's.
struct DeviceModel : Model {
  DeviceModel() {
    for (auto& parameter : parameters) parameter.values.device = kDevice;
  }
};

/// A step whose kernels read `number` when they run.
void step(GradientReducer& reducer, const Stream& stream, int rank, const int& number) {
  reducer.zero_gradients();
  reducer.begin();
  for (std::size_t p = 5; p-- > 0;) {
    launch_on(stream.get(),
              [&reducer, rank, &number, p] { add_gradient(reducer, rank, number, p); });
    reducer.ready(p, stream.get());
  }
  reducer.finish(stream.get());
}

/// Steps before the buckets are placed.
void warm_up(GradientReducer& reducer, const Stream& stream, int rank) {
  for (int number = 0; number < 2; ++number) {
    step(reducer, stream, rank, number);
    reducer.synchronise();
    fake_cuda().stream_synchronize(stream.get());
  }
}

void train(ProcessGroup& group, const ReducerOptions& options) {
  DeviceModel model;
  const Stream stream;
  group.set_stream(stream.get());
  GradientReducer reducer(group, model.parameters, {}, options);
  warm_up(reducer, stream, group.rank());
  const float divisor = options.op == ReduceOp::average ? static_cast<float>(group.size()) : 1;
  int number = 0;
  const FakeGraph graph = captured(stream, [&] { step(reducer, stream, group.rank(), number); });
  for (number = 2; number < 6; ++number) {
    launch_graph(graph, stream.get());
    // Also waits for the launch.
    reducer.synchronise();
    require_gradients(reducer, group.size(), number, divisor);
  }
  // Steps without a graph, like before.
  step(reducer, stream, group.rank(), number);
  reducer.synchronise();
  fake_cuda().stream_synchronize(stream.get());
  require_gradients(reducer, group.size(), number, divisor);
}

/// A captured step with gradients in the caller's memory, on several streams.
void train_with_own(ProcessGroup& group) {
  DeviceModel model;
  std::vector<std::vector<float>> own;
  for (auto& parameter : model.parameters) {
    own.emplace_back(parameter.values.elements);
    parameter.gradient = on_device(own.back());
  }
  const Stream stream;
  const Stream other;
  group.set_stream(stream.get());
  GradientReducer reducer(group, model.parameters, {}, kSmallBuckets);
  float value = 0;
  const auto make_step = [&] {
    reducer.zero_gradients();
    reducer.begin();
    fork(stream, other);
    for (std::size_t p = 0; p < 5; ++p) {
      const Stream& maker = p % 2 == 0 ? other : stream;
      launch_on(maker.get(), [&own, &value, p] { own[p].assign(own[p].size(), value); });
      reducer.ready(p, maker.get());
    }
    reducer.finish(stream.get());
  };
  make_step();
  reducer.synchronise();
  const FakeGraph graph = captured(stream, make_step);
  for (int launch = 1; launch < 4; ++launch) {
    fake_cuda().stream_synchronize(stream.get());
    value = static_cast<float>(10 * launch + group.rank());
    launch_graph(graph, stream.get());
    reducer.synchronise();
    const float mean = static_cast<float>(10 * launch) + static_cast<float>(group.size() - 1) / 2;
    for (const auto& gradient : own)
      require(gradient == std::vector<float>(gradient.size(), mean), "an own gradient is wrong");
  }
}

/// The reason why a step of such a reducer is not captured, after other steps.
std::string refusal_with(ProcessGroup& group, const ReducerOptions& options, int steps = 2,
                         std::vector<Buffer> state = {}) {
  DeviceModel model;
  const Stream stream;
  group.set_stream(stream.get());
  GradientReducer reducer(group, model.parameters, std::move(state), options);
  int number = 0;
  const auto make_step = [&] {
    step(reducer, stream, group.rank(), number);
    reducer.synchronise();
    fake_cuda().stream_synchronize(stream.get());
  };
  for (; number < steps; ++number) make_step();
  std::string refusal;
  const FakeGraph graph = captured(stream, [&] { refusal = what_of([&] { reducer.begin(); }); });
  CHECK(fake_graph_size(graph) == 0);
  // The rank continues without capture.
  make_step();
  group.set_stream(nullptr);
  const std::string beginning = "GradientReducer: this step cannot be captured: ";
  return refusal.starts_with(beginning) ? refusal.substr(beginning.size()) : refusal;
}

}  // namespace

TEST_SUITE("captured reducer steps") {
  TEST_CASE("captured reducer: each launch yields the gradients of one rank with all the data") {
    std::vector<ReducerOptions> all(5, kSmallBuckets);
    all[1].op = ReduceOp::sum;
    all[2].pre_divide = true;
    all[3].rebuild_buckets = true;
    all[4].static_graph = true;
    const int failures = fake_capture_failures();
    for (const int ranks : {1, 2, 4}) {
      for (const auto& options : all) {
        CAPTURE(ranks);
        CAPTURE(&options - all.data());
        const CleanDevices clean;
        run_ranks(device_ranks(ranks), [&](ProcessGroup& group) { train(group, options); });
      }
    }
    CHECK(fake_capture_failures() == failures);
  }

  TEST_CASE("captured reducer: the caller's gradients from several streams are correct") {
    const CleanDevices clean;
    for (const int ranks : {1, 3}) run_ranks(device_ranks(ranks), train_with_own);
  }

  TEST_CASE("captured reducer: capturing a step that requires the host is rejected") {
    const CleanDevices clean;
    run_ranks(device_ranks(2), [](ProcessGroup& group) {
      const std::string each = " in each step; disable it, or do not capture the step";
      auto options = kSmallBuckets;
      options.hook = compress(group, DataType::float16);
      CHECK(refusal_with(group, options) ==
            "the bucket hook " + options.hook->name + " requires the host to run it" + each);
      options = kSmallBuckets;
      options.find_unused_parameters = true;
      CHECK(refusal_with(group, options) ==
            "find_unused_parameters requires the host to exchange which parameters were used" +
                each);
      options = kSmallBuckets;
      options.uneven_inputs = UnevenInputs::average_over_all;
      CHECK(refusal_with(group, options) ==
            "uneven_inputs requires the host to exchange which ranks have input" + each);
      options = kSmallBuckets;
      options.drift_check_steps = 100;
      CHECK(refusal_with(group, options) ==
            "drift_check_steps requires the host to compare parameters" + each);
      options = kSmallBuckets;
      options.broadcast_buffers = true;
      std::vector<float> counter(1);
      CHECK(refusal_with(group, options, 2, {as_buffer(counter.data(), 1)}) ==
            "broadcast_buffers requires the host to send the buffers in its memory" + each);
    });
  }

  TEST_CASE("captured reducer: capturing is rejected until the buckets have their final memory") {
    const CleanDevices clean;
    run_ranks(device_ranks(2), [](ProcessGroup& group) {
      const std::string first =
          "buckets and communicator do not have their final places before the first step has ended "
          "(run a step or two without capture first)";
      CHECK(refusal_with(group, kSmallBuckets, 0) == first);
      auto options = kSmallBuckets;
      options.static_graph = true;
      CHECK(refusal_with(group, options, 0) == first);
      options = kSmallBuckets;
      options.rebuild_buckets = true;
      CHECK(refusal_with(group, options, 1) ==
            "buckets and communicator do not have their final places before they have been rebuilt "
            "(run a step or two without capture first)");
    });
  }

  TEST_CASE("captured reducer: a step must be captured completely and end with finish(stream)") {
    const CleanDevices clean;
    run_ranks(device_ranks(2), [](ProcessGroup& group) {
      DeviceModel model;
      const Stream stream;
      const Stream other;
      group.set_stream(stream.get());
      GradientReducer reducer(group, model.parameters, {}, kSmallBuckets);
      warm_up(reducer, stream, group.rank());
      const FakeGraph graph = captured(stream, [&] {
        reducer.begin();
        CHECK(what_of([&] {
                reducer.ready(4, other.get());
              }).find("a stream of its gradients is not part of that") != std::string::npos);
        for (std::size_t p = 5; p-- > 0;) reducer.ready(p, stream.get());
        CHECK(what_of([&] { reducer.finish(); })
                  .starts_with("GradientReducer: finish() waits on the host, and the step is being "
                               "captured"));
        CHECK(what_of([&] { reducer.finish(other.get()); }).find("is not part of that") !=
              std::string::npos);
        reducer.finish(stream.get());
        CHECK(what_of([&] {
                reducer.synchronise();
              }).starts_with("GradientReducer: synchronise() within a capture"));
        CHECK(what_of([&] {
                const GradientReducer second(group, model.parameters);
              }).starts_with("GradientReducer: it is made while the group's stream is being"));
      });
    });
  }
}

TEST_SUITE("failures beside graphs") {
  TEST_CASE("captured reducer: a rank that aborts during launches is named on the other ranks") {
    const CleanDevices clean;
    std::latch have_launched(2);
    run_ranks(device_ranks(3), [&](ProcessGroup& group) {
      DeviceModel model;
      const Stream stream;
      group.set_stream(stream.get());
      std::optional<GradientReducer> reducer;
      reducer.emplace(group, model.parameters, std::vector<Buffer>{}, kSmallBuckets);
      warm_up(*reducer, stream, group.rank());
      const int number = 2;
      FakeGraph graph = captured(stream, [&] { step(*reducer, stream, group.rank(), number); });
      launch_graph(graph, stream.get());
      reducer->synchronise();
      if (group.rank() == 2) {
        have_launched.wait();
        group.abort("this rank has had enough");
      } else {
        launch_graph(graph, stream.get());
        have_launched.count_down();
        const auto failure = describe_failure([&] { reducer->synchronise(); });
        CHECK(failure.starts_with("peer 2: "));
        CHECK(failure.find("this rank has had enough") != std::string::npos);
        // Later launches end at once, with any result.
        launch_graph(graph, stream.get());
        fake_cuda().stream_synchronize(stream.get());
        std::vector<float> values(1);
        CHECK(describe_failure([&] {
                group.all_reduce(on_device(values)).wait();
              }).starts_with("peer 2: "));
      }
    });
    CHECK(are_communicators_gone());
  }

  TEST_CASE("captured reducer: abort() ends the pending launches of the calling rank") {
    const CleanDevices clean;
    run_ranks(device_ranks(2), [](ProcessGroup& group) {
      DeviceModel model;
      const Stream stream;
      group.set_stream(stream.get());
      std::optional<GradientReducer> reducer;
      reducer.emplace(group, model.parameters, std::vector<Buffer>{}, kSmallBuckets);
      warm_up(*reducer, stream, group.rank());
      const int number = 2;
      FakeGraph graph = captured(stream, [&] { step(*reducer, stream, group.rank(), number); });
      if (group.rank() == 0) launch_graph(graph, stream.get());
      group.barrier().wait();
      // On the only rank that has launched: its kernels wait for a missing rank.
      if (group.rank() == 0) group.abort("this rank has had enough");
      fake_cuda().stream_synchronize(stream.get());
      graph.reset();
      reducer.reset();
    });
    CHECK(are_communicators_gone());
  }

  TEST_CASE("captured reducer: an NCCL error during a launch is reported on all ranks") {
    const CleanDevices clean;
    run_ranks(device_ranks(2), [&](ProcessGroup& group) {
      std::vector<float> values(3, 1);
      group.all_reduce(on_device(values)).wait();
      const Stream stream;
      group.set_stream(stream.get());
      const FakeGraph graph =
          captured(stream, [&] { group.all_reduce(on_device(values)).hold(stream.get()); });
      nccl_faults().collective = ncclRemoteError;
      launch_graph(graph, stream.get());
      fake_cuda().stream_synchronize(stream.get());
      const auto failure = describe_failure([&] { group.barrier().wait(); });
      CHECK(failure.starts_with(group.rank() == 1 ? "peer -1: " : "peer 1: "));
      CHECK(failure.find("a graph with collectives of the group: remote process exited") !=
            std::string::npos);
    });
    CHECK(are_communicators_gone());
  }

  TEST_CASE("captured reducer: the communicator exists until the last graph is destroyed") {
    const CleanDevices clean;
    std::vector<FakeGraph> graphs(2);
    std::vector<float> values(2);
    run_ranks(device_ranks(2), [&](ProcessGroup& group) {
      const auto rank = static_cast<std::size_t>(group.rank());
      const Buffer own{&values[rank], 1, DataType::float32, kDevice};
      group.all_reduce(own).wait();
      const Stream stream;
      group.set_stream(stream.get());
      graphs[rank] = captured(stream, [&] { group.all_reduce(own).hold(stream.get()); });
    });
    CHECK(fake_communicators() == 2);
    graphs.clear();
    CHECK(are_communicators_gone());
  }
}

}  // namespace captured_reducer_test
