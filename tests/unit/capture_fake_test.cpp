// That the fake's captures go by CUDA's rules, which the tests of captured calls rely on.
#include "tests/support/device_ranks.hpp"
#include "tests/support/fake_capture.hpp"

#include <doctest/doctest.h>

#include <functional>
#include <thread>
#include <vector>

namespace capture_fake_test {

using namespace ddprun;
using namespace ddprun::test;

namespace {

class Event {
 public:
  Event() { fake_cuda().event_create(&event_, cudaEventDisableTiming); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  ~Event() { fake_cuda().event_destroy(event_); }
  cudaEvent_t get() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

cudaError_t order(const Stream& before, const Stream& after, const Event& event) {
  fake_cuda().event_record(event.get(), before.get());
  return fake_cuda().stream_wait_event(after.get(), event.get(), 0);
}

cudaStreamCaptureStatus status_of(const Stream& stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  unsigned long long id = 0;
  fake_cuda().get_capture_info(stream.get(), &status, &id);
  return status;
}

/// What the end of a capture says in which `call` was made.
struct Ends {
  cudaError_t call;
  cudaError_t end;
  bool operator==(const Ends&) const = default;
};

Ends ends_of(const std::function<cudaError_t(const Stream& captured)>& call,
             cudaStreamCaptureMode mode = cudaStreamCaptureModeThreadLocal) {
  const Stream stream;
  begin_capture(stream.get(), mode);
  const cudaError_t error = call(stream);
  FakeGraph graph;
  return {error, end_capture(stream.get(), graph)};
}

}  // namespace

TEST_SUITE("capture fake") {
  TEST_CASE("what is captured runs at each launch of the graph, and not before") {
    const CleanDevices clean;
    const Stream stream;
    int runs = 0;
    FakeGraph graph;
    CHECK(begin_capture(stream.get()) == cudaSuccess);
    launch_on(stream.get(), [&runs] { ++runs; });
    CHECK(status_of(stream) == cudaStreamCaptureStatusActive);
    CHECK(end_capture(stream.get(), graph) == cudaSuccess);
    CHECK(status_of(stream) == cudaStreamCaptureStatusNone);
    fake_cuda().stream_synchronize(stream.get());
    CHECK(runs == 0);
    for (int i = 0; i < 3; ++i) launch_graph(graph, stream.get());
    fake_cuda().stream_synchronize(stream.get());
    CHECK(runs == 3);
  }

  TEST_CASE("works of a graph are held up by events alone") {
    const CleanDevices clean;
    const Stream stream;
    const Stream other;
    const Event fork;
    const Event join;
    std::vector<int> order_of_works;
    const auto note = [&](const Stream& where, int work) {
      launch_on(where.get(), [&order_of_works, work] { order_of_works.push_back(work); });
    };
    FakeGraph graph;
    begin_capture(stream.get());
    note(stream, 0);
    CHECK(order(stream, other, fork) == cudaSuccess);
    CHECK(status_of(other) == cudaStreamCaptureStatusActive);
    note(stream, 1);
    note(other, 2);
    CHECK(order(other, stream, join) == cudaSuccess);
    note(stream, 3);
    CHECK(end_capture(stream.get(), graph) == cudaSuccess);
    CHECK(status_of(other) == cudaStreamCaptureStatusNone);
    launch_graph(graph, stream.get());
    fake_cuda().stream_synchronize(stream.get());
    CHECK(order_of_works == std::vector<int>{0, 2, 1, 3});
  }

  TEST_CASE("what is not allowed in a capture is an error, and ends it") {
    const CleanDevices clean;
    const Stream other;
    const Event event;
    const int failures = fake_capture_failures();
    CHECK(ends_of([&](const Stream& captured) {
            fake_cuda().event_record(event.get(), captured.get());
            return fake_cuda().event_query(event.get());
          }) == Ends{cudaErrorStreamCaptureUnsupported, cudaErrorStreamCaptureInvalidated});
    CHECK(ends_of(
              [&](const Stream& captured) {
                fake_cuda().event_record(event.get(), captured.get());
                return fake_cuda().event_query(event.get());
              },
              cudaStreamCaptureModeRelaxed) ==
          Ends{cudaErrorCapturedEvent, cudaErrorStreamCaptureInvalidated});
    CHECK(ends_of([&](const Stream& captured) {
            return fake_cuda().stream_synchronize(captured.get());
          }) == Ends{cudaErrorStreamCaptureUnsupported, cudaErrorStreamCaptureInvalidated});
    CHECK(ends_of([&](const Stream& captured) { return order(other, captured, event); }) ==
          Ends{cudaErrorStreamCaptureIsolation, cudaErrorStreamCaptureInvalidated});
    CHECK(ends_of([&](const Stream&) {
            void* memory = nullptr;
            return fake_cuda().allocate(&memory, 10);
          }) == Ends{cudaErrorStreamCaptureUnsupported, cudaErrorStreamCaptureInvalidated});
    CHECK(fake_capture_failures() == failures + 5);
    CHECK(ends_of([&](const Stream& captured) {
            order(captured, other, event);
            launch_on(other.get(), [] {});
            return cudaSuccess;
          }) == Ends{cudaSuccess, cudaErrorStreamCaptureUnjoined});
  }

  TEST_CASE("a capture of a thread forbids others what is unsafe, unless they say they know") {
    const CleanDevices clean;
    const Event event;
    fake_cuda().event_record(event.get(), nullptr);
    const auto in_another_thread = [&](cudaStreamCaptureMode mode) {
      return [&event, mode](const Stream&) {
        cudaError_t error = cudaSuccess;
        std::thread([&] {
          cudaStreamCaptureMode changed = mode;
          fake_cuda().exchange_capture_mode(&changed);
          error = fake_cuda().event_query(event.get());
        }).join();
        return error;
      };
    };
    CHECK(ends_of(in_another_thread(cudaStreamCaptureModeGlobal), cudaStreamCaptureModeGlobal) ==
          Ends{cudaErrorStreamCaptureUnsupported, cudaErrorStreamCaptureInvalidated});
    CHECK(ends_of(in_another_thread(cudaStreamCaptureModeRelaxed), cudaStreamCaptureModeGlobal) ==
          Ends{cudaSuccess, cudaSuccess});
    CHECK(ends_of(in_another_thread(cudaStreamCaptureModeGlobal)) ==
          Ends{cudaSuccess, cudaSuccess});
  }
}

}  // namespace capture_fake_test
