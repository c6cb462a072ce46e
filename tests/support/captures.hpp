// Captures of what a function does, with the fake's streams.
#pragma once

#include "tests/support/device_ranks.hpp"
#include "tests/support/fake_capture.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <functional>
#include <thread>

namespace ddprun::test {

/// The graph of what `body` gives `stream`.
inline FakeGraph captured(const Stream& stream, const std::function<void()>& body) {
  CHECK(begin_capture(stream.get()) == cudaSuccess);
  body();
  FakeGraph graph;
  CHECK(end_capture(stream.get(), graph) == cudaSuccess);
  return graph;
}

/// What `after` is given from now on comes behind what `before` has been given; both are part of a
/// capture then if `before` is.
inline void fork(const Stream& before, const Stream& after) {
  cudaEvent_t event = nullptr;
  fake_cuda().event_create(&event, cudaEventDisableTiming);
  fake_cuda().event_record(event, before.get());
  fake_cuda().stream_wait_event(after.get(), event, 0);
  fake_cuda().event_destroy(event);
}

/// Waits for those that graphs have kept, which nobody else waits for.
inline bool are_communicators_gone() {
  const auto deadline = Deadline::after(std::chrono::seconds(60));
  while (fake_communicators() > 0 && !deadline.passed()) std::this_thread::yield();
  return fake_communicators() == 0;
}

}  // namespace ddprun::test
