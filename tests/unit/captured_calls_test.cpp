// Collectives on streams captured into graphs, with the fake devices and NCCL.
#include "tests/support/captures.hpp"
#include "tests/support/device_ranks.hpp"
#include "tests/support/failure_text.hpp"
#include "tests/support/rank_threads.hpp"
#include <ddprun/error.hpp>

#include <doctest/doctest.h>

#include <chrono>
#include <functional>
#include <future>
#include <latch>
#include <string>
#include <thread>
#include <vector>

namespace captured_calls_test {

using namespace ddprun;
using namespace ddprun::test;
using namespace std::chrono_literals;

namespace {

using Floats = std::vector<float>;

struct Call {
  const char* name;
  std::size_t input;   ///< elements for each rank
  std::size_t output;  ///< the same; 0: in place
  bool input_of_all;   ///< the same number for each rank
  bool output_of_all;
  std::function<Work(ProcessGroup&, Buffer input, Buffer output)> make;
};

std::vector<Call> all_calls() {
  return {
      {"all_reduce", 5, 0, false, false,
       [](auto& group, Buffer in, Buffer) { return group.all_reduce(in); }},
      {"average", 5, 0, false, false,
       [](auto& group, Buffer in, Buffer) { return group.all_reduce(in, ReduceOp::average); }},
      {"broadcast", 5, 0, false, false,
       [](auto& group, Buffer in, Buffer) { return group.broadcast(in, group.size() - 1); }},
      {"reduce", 5, 0, false, false,
       [](auto& group, Buffer in, Buffer) { return group.reduce(in, 0, ReduceOp::max); }},
      {"all_gather", 5, 5, false, true,
       [](auto& group, Buffer in, Buffer out) { return group.all_gather(in, out); }},
      {"reduce_scatter", 5, 5, true, false,
       [](auto& group, Buffer in, Buffer out) { return group.reduce_scatter(in, out); }},
      {"gather", 5, 5, false, true,
       [](auto& group, Buffer in, Buffer out) { return group.gather(in, out, 0); }},
      {"scatter", 5, 5, true, false,
       [](auto& group, Buffer in, Buffer out) { return group.scatter(in, out, 0); }},
      {"all_to_all", 5, 5, true, true,
       [](auto& group, Buffer in, Buffer out) { return group.all_to_all(in, out); }},
  };
}

void fill(Floats& values, int rank, int round) {
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(100 * round + 10 * rank + static_cast<int>(i));
}

/// The same collective, called in each round and captured once.
void compare(ProcessGroup& group, const Call& call) {
  const auto ranks = static_cast<std::size_t>(group.size());
  Floats input(call.input * (call.input_of_all ? ranks : 1));
  Floats output(call.output * (call.output_of_all ? ranks : 1));
  const Floats& result = call.output == 0 ? input : output;
  const auto make = [&] { return call.make(group, on_device(input), on_device(output)); };
  std::vector<Floats> expected;
  for (int round = 0; round < 3; ++round) {
    fill(input, group.rank(), round);
    make().wait();
    expected.push_back(result);
  }
  const Stream stream;
  group.set_stream(stream.get());
  int round = 0;
  std::vector<Floats> seen;
  const FakeGraph graph = captured(stream, [&] {
    launch_on(stream.get(), [&] { fill(input, group.rank(), round); });
    make().hold(stream.get());
    launch_on(stream.get(), [&] { seen.push_back(result); });
  });
  CHECK(seen.empty());
  for (; round < 3; ++round) {
    launch_graph(graph, stream.get());
    fake_cuda().stream_synchronize(stream.get());
  }
  group.set_stream(nullptr);
  CHECK(seen == expected);
}

/// Creates the communicator.
void meet(ProcessGroup& group) {
  Floats values(1);
  group.all_reduce(on_device(values)).wait();
}

std::string refusal_of(const std::function<void()>& body) {
  const auto text = describe_failure(body);
  const std::string beginning = "usage: ";
  return text.starts_with(beginning) ? text.substr(beginning.size()) : "not refused: " + text;
}

}  // namespace

TEST_SUITE("captured calls") {
  TEST_CASE("captured calls: each graph launch equals a direct call") {
    for (const int ranks : {1, 2, 3, 4}) {
      CAPTURE(ranks);
      const CleanDevices clean;
      const int failures = fake_capture_failures();
      run_ranks(device_ranks(ranks), [](ProcessGroup& group) {
        meet(group);
        for (const auto& call : all_calls()) {
          CAPTURE(call.name);
          compare(group, call);
        }
      });
      CHECK(fake_capture_failures() == failures);
    }
  }

  TEST_CASE("captured calls: calls of a graph overlap with later work of the caller's stream") {
    const CleanDevices clean;
    run_ranks(device_ranks(2), [](ProcessGroup& group) {
      meet(group);
      const Stream stream;
      group.set_stream(stream.get());
      Floats first(3);
      Floats second(3);
      std::vector<std::string> log;
      const FakeGraph graph = captured(stream, [&] {
        launch_on(stream.get(), [&] { first = {1, 2, 3}; });
        const Work one = group.all_reduce(on_device(first));
        // The fake runs works early unless they have dependencies.
        launch_on(stream.get(), [&] { log.push_back("meanwhile " + std::to_string(first[2])); });
        launch_on(stream.get(), [&] { second = {4, 5, 6}; });
        const Work two = group.all_reduce(on_device(second));
        CHECK(one.is_done());
        one.hold(stream.get());
        two.hold(stream.get());
        launch_on(stream.get(), [&] {
          log.push_back("then " + std::to_string(first[2]) + " " + std::to_string(second[2]));
        });
      });
      launch_graph(graph, stream.get());
      fake_cuda().stream_synchronize(stream.get());
      CHECK(log == std::vector<std::string>{"meanwhile 3.000000", "then 6.000000 12.000000"});
      group.set_stream(nullptr);
    });
  }

  TEST_CASE("captured calls: a capture that ends without joining a call is a CUDA error") {
    const CleanDevices clean;
    run_ranks(device_ranks(2), [](ProcessGroup& group) {
      meet(group);
      const Stream stream;
      group.set_stream(stream.get());
      Floats values(3, 1);
      FakeGraph graph;
      begin_capture(stream.get());
      (void)group.all_reduce(on_device(values));
      CHECK(end_capture(stream.get(), graph) == cudaErrorStreamCaptureUnjoined);
      // The next capture and the next call are not affected.
      graph = captured(stream, [&] { group.all_reduce(on_device(values)).hold(stream.get()); });
      group.all_reduce(on_device(values)).wait();
      CHECK(values == Floats(3, 2));
    });
  }

  TEST_CASE("captured calls: polling a pending call does not invalidate a global-mode capture") {
    const CleanDevices clean;
    const int failures = fake_capture_failures();
    std::latch have_captured(2);
    run_ranks(device_ranks(2), [&](ProcessGroup& group) {
      meet(group);
      const Stream busy;
      const Stream stream;
      std::promise<void> may_go_on;
      launch_on(busy.get(), [held = may_go_on.get_future().share()] { held.wait(); });
      Floats before(2, 1);
      Floats values(2, 1);
      group.set_stream(busy.get());
      const Work under_way = group.all_reduce(on_device(before));
      group.set_stream(stream.get());
      FakeGraph graph;
      CHECK(begin_capture(stream.get(), cudaStreamCaptureModeGlobal) == cudaSuccess);
      group.all_reduce(on_device(values)).hold(stream.get());
      // The group's thread polls the pending call meanwhile.
      const auto meanwhile = Deadline::after(10ms);
      while (!meanwhile.passed()) std::this_thread::yield();
      CHECK(end_capture(stream.get(), graph) == cudaSuccess);
      have_captured.arrive_and_wait();
      may_go_on.set_value();
      under_way.wait();
      CHECK(before == Floats(2, 2));
      launch_graph(graph, stream.get());
      fake_cuda().stream_synchronize(stream.get());
      CHECK(values == Floats(2, 2));
      // Calls after a launch work.
      group.all_reduce(on_device(values)).wait();
      CHECK(values == Floats(2, 4));
    });
    CHECK(fake_capture_failures() == failures);
  }

  TEST_CASE("captured calls: an unsupported call is rejected without breaking capture or group") {
    const CleanDevices clean;
    run_ranks(device_ranks(2), [](ProcessGroup& group) {
      const Stream stream;
      Floats values(2, 1);
      const Buffer there = on_device(values);
      const Buffer here = as_buffer(values.data(), values.size());
      const std::string name = "process group \"default\": ";
      const auto check = [&](const std::string& expected, const std::function<void()>& body) {
        const FakeGraph graph = captured(stream, [&] { CHECK(refusal_of(body) == expected); });
        CHECK(fake_graph_size(graph) == 0);
      };
      group.set_stream(stream.get());
      check(name +
                "all_reduce(2 x float32, sum) cannot be captured: the group has no communicator "
                "yet, and none can be made in a capture (run a step or two without capture first)",
            [&] { (void)group.all_reduce(there); });
      meet(group);
      const std::string of_host =
          " cannot be captured: it is not of buffers on the device, and the group's stream is "
          "being captured (call it before the capture or after it)";
      check(name + "all_reduce(2 x float32, sum)" + of_host, [&] { (void)group.all_reduce(here); });
      check(name + "barrier()" + of_host, [&] { (void)group.barrier(); });
      check(name +
                "send(2 x float32, rank 1, tag 0) cannot be captured: messages pass through the "
                "memory of the host",
            [&] { (void)group.send(there, 1); });
      check(name +
                "all_to_all(1 x float32) cannot be captured: in place it needs memory that a graph "
                "cannot keep (give it an output of its own)",
            [&] { (void)group.all_to_all(there, there); });
      values = {1, 1};
      group.all_reduce(there).wait();
      CHECK(values == Floats(2, 2));
    });
  }

  TEST_CASE("captured calls: the host and streams outside the capture cannot wait for a call") {
    const CleanDevices clean;
    run_ranks(device_ranks(2), [](ProcessGroup& group) {
      meet(group);
      const Stream stream;
      const Stream other;
      std::promise<void> may_go_on;
      launch_on(other.get(), [held = may_go_on.get_future().share()] { held.wait(); });
      Floats values(2);
      group.set_stream(other.get());
      const Work before = group.all_reduce(on_device(values));
      group.set_stream(stream.get());
      Work work;
      const FakeGraph graph = captured(stream, [&] {
        work = group.all_reduce(on_device(values));
        CHECK(refusal_of([&] { work.wait(); })
                  .starts_with("all_reduce was captured into a graph, and the host cannot wait for "
                               "it: "));
        CHECK(refusal_of([&] { work.hold(other.get()); })
                  .starts_with("a stream is to wait for a call that was captured, and is not part "
                               "of that capture "));
        CHECK(refusal_of([&] { before.hold(stream.get()); })
                  .starts_with("a stream that is being captured is to wait for a call from before "
                               "the capture "));
        work.hold(stream.get());
      });
      CHECK(refusal_of([&] {
              work.hold(stream.get());
            }).starts_with("a stream is to wait for a call that was captured"));
      may_go_on.set_value();
      before.wait();
    });
  }

  TEST_CASE("captured calls: concurrent captures and the default stream are rejected") {
    const CleanDevices clean;
    run_ranks(device_ranks(2), [](ProcessGroup& group) {
      meet(group);
      const Stream first;
      const Stream second;
      Floats values(2);
      FakeGraph graph;
      begin_capture(first.get());
      begin_capture(second.get());
      group.set_stream(first.get());
      const Work work = group.all_reduce(on_device(values));
      group.set_stream(second.get());
      CHECK(refusal_of([&] {
              (void)group.all_reduce(on_device(values));
            }).find("another capture with calls of this group has not ended") != std::string::npos);
      work.hold(first.get());
      CHECK(end_capture(first.get(), graph) == cudaSuccess);
      group.all_reduce(on_device(values)).hold(second.get());
      CHECK(end_capture(second.get(), graph) == cudaSuccess);
      cudaStream_t blocking = nullptr;
      fake_cuda().stream_create(&blocking, cudaStreamDefault);
      begin_capture(blocking);
      group.set_stream(nullptr);
      CHECK(refusal_of([&] { (void)group.all_reduce(on_device(values)); })
                .find("the default stream cannot be used while a stream that waits for it is "
                      "captured") != std::string::npos);
      CHECK(end_capture(blocking, graph) == cudaSuccess);
      fake_cuda().stream_destroy(blocking);
    });
  }
}

}  // namespace captured_calls_test
