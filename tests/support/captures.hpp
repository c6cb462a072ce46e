// Stream captures of a function on the fake CUDA devices.
#pragma once

#include "tests/support/device_ranks.hpp"
#include "tests/support/fake_capture.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <functional>
#include <thread>

namespace ddprun::test {

/// Returns the graph of the work that `body` gives to `stream`.
inline FakeGraph captured(const Stream& stream, const std::function<void()>& body) {
  CHECK(begin_capture(stream.get()) == cudaSuccess);
  body();
  FakeGraph graph;
  CHECK(end_capture(stream.get(), graph) == cudaSuccess);
  return graph;
}

/// Orders later work of `after` behind the present work of `before`; if `before` is being captured,
/// `after` joins the capture.
inline void fork(const Stream& before, const Stream& after) {
  cudaEvent_t event = nullptr;
  fake_cuda().event_create(&event, cudaEventDisableTiming);
  fake_cuda().event_record(event, before.get());
  fake_cuda().stream_wait_event(after.get(), event, 0);
  fake_cuda().event_destroy(event);
}

/// Waits until memory kept by graphs is freed.
inline bool are_communicators_gone() {
  const auto deadline = Deadline::after(std::chrono::seconds(60));
  while (fake_communicators() > 0 && !deadline.passed()) std::this_thread::yield();
  return fake_communicators() == 0;
}

}  // namespace ddprun::test
