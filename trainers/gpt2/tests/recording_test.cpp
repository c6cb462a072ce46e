// Operations that a Compute records and launches again, on the fake device as CUDA graphs.
#include "tests/support/device_arrays.hpp"
#include "tests/support/fake_capture.hpp"
#include "trainers/compute/adamw_pace.hpp"
#include "trainers/gpt2/tests/emulated_device.hpp"
#include <ddprun/error.hpp>

#include <doctest/doctest.h>

#include <functional>
#include <memory>
#include <span>
#include <stdexcept>
#include <vector>

namespace recording_test {

using namespace trainer;
using namespace ddprun::test;
using ddprun::DataType;
using ddprun::Error;

namespace {

void put(Compute& compute, const Array& array, const std::vector<float>& values) {
  compute.copy_in(std::as_bytes(std::span(values)), array.buffer);
}

/// Adds the sum of four numbers, and of their activations, to totals.
struct Sums {
  explicit Sums(Compute& device) : compute(device) {}

  void run() {
    compute.run(Activation{
        .input = values.buffer, .output = positive.buffer, .elements = values.buffer.elements});
    compute.run(AddSum{values.buffer, total.buffer.slice(0, 1), values.buffer.elements});
    compute.run(AddSum{positive.buffer, total.buffer.slice(1, 1), positive.buffer.elements});
  }
  Doubles totals() { return from_device(compute, total.buffer); }

  Compute& compute;
  Array values = compute.allocate(4, DataType::float32);
  Array positive = compute.allocate(4, DataType::float32);
  Array total = compute.allocate(2, DataType::float64);
};

void check_launches(Compute& compute) {
  Sums sums(compute);
  put(compute, sums.values, {1, 2, 3, -4});
  sums.run();
  CHECK(sums.totals() == Doubles{2, 6});
  const auto recording = compute.record([&] { sums.run(); });
  CHECK(sums.totals() == Doubles{2, 6});
  recording->launch();
  CHECK(sums.totals() == Doubles{4, 12});
  put(compute, sums.values, {-1, 10, 0, 0});
  recording->launch();
  recording->launch();
  CHECK(sums.totals() == Doubles{22, 32});
  // Operations after the recording are not affected.
  sums.run();
  CHECK(sums.totals() == Doubles{31, 42});
}

/// Returns the reason why `work` cannot be recorded.
std::string refusal(Compute& compute, const std::function<void()>& work) {
  try {
    compute.record(work);
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

}  // namespace

TEST_SUITE("recordings") {
  TEST_CASE("recordings: each launch repeats the recorded work on current data") {
    const LeavesNothing check;
    check_launches(*make_cpu_compute(1));
    check_launches(*make_emulated_compute());
  }

  TEST_CASE("recordings: a launch issues no further launches") {
    const LeavesNothing check;
    const auto device = make_emulated_compute();
    Sums sums(*device);
    sums.run();
    const auto recording = device->record([&] { sums.run(); });
    const int before = emulated_launches();
    for (int i = 0; i < 3; ++i) recording->launch();
    CHECK(emulated_launches() == before);
    put(*device, sums.values, {1, 0, 0, 0});
    recording->launch();
    CHECK(sums.totals() == Doubles{1, 1});
  }

  TEST_CASE("recordings: AdamW follows step and rate in memory") {
    const LeavesNothing check;
    const auto device = make_emulated_compute();
    constexpr int kSteps = 3;
    const auto train = [&](bool is_recorded, bool has_pace) {
      const Array values = on_device(*device, {1, -2}, DataType::float32);
      const Array gradient = on_device(*device, {0.5, 3}, DataType::float32);
      const Array statistics = on_device(*device, {0, 0, 0, 0}, DataType::float32);
      const Array pace = on_device(*device, {0, 0, 0}, DataType::float64);
      AdamW o{.values = values.buffer,
              .gradient = gradient.buffer,
              .mean = statistics.buffer.slice(0, 2),
              .square = statistics.buffer.slice(2, 2),
              .pace = has_pace ? pace.buffer : Buffer{},
              .elements = 2,
              .weight_decay = 9.9};  // so that its rounding would be detected
      std::unique_ptr<Recording> recording;
      for (o.step = 1; o.step <= kSteps; ++o.step) {
        o.learning_rate = 0.1 / static_cast<double>(o.step);
        const AdamWPace now = adamw_pace(o);
        device->copy_in(std::as_bytes(std::span(&now, 1)), pace.buffer);
        if (is_recorded && !recording) recording = device->record([&] { device->run(o); });
        if (recording) {
          recording->launch();
        } else {
          device->run(o);
        }
      }
      device->wait();
      return from_device(*device, values.buffer);
    };
    const Doubles expected = train(false, false);
    CHECK(train(false, true) == expected);
    CHECK(train(true, true) == expected);
    CHECK(train(true, false) != expected);
  }

  TEST_CASE("recordings: steps that involve the host are not recorded") {
    const LeavesNothing check;
    const auto device = make_emulated_compute();
    Sums sums(*device);
    sums.run();
    std::vector<float> values(4);
    const auto bytes = std::as_writable_bytes(std::span(values));
    CHECK(refusal(*device, [&] { device->copy_in(bytes, sums.values.buffer); }) ==
          "copying in cannot be recorded");
    CHECK(refusal(*device, [&] { device->copy_out(sums.values.buffer, bytes); }) ==
          "copying out cannot be recorded");
    CHECK(refusal(*device, [&] { device->record([] {}); }) == "a recording cannot be recorded");
    const int failures = fake_capture_failures();
    CHECK(refusal(*device, [&] { device->wait(); }) ==
          "work on the CUDA device: an error of the fake");
    CHECK(refusal(*device, [&] {
            device->allocate(1, DataType::float32);
          }).starts_with("no memory on CUDA device 1"));
    // Each failure has ended its capture, which must not be used as a graph.
    CHECK(fake_capture_failures() == failures + 2);
    CHECK_THROWS_AS(device->record([] { throw std::runtime_error("the program's own"); }),
                    std::runtime_error);
    check_launches(*device);
  }

  TEST_CASE("recordings: later larger operations keep a recording's memory") {
    const LeavesNothing check;
    const auto device = make_emulated_compute();
    const auto sum_rows = [&](std::size_t rows, const Array& result) {
      const Array ones = on_device(*device, Doubles(rows, 1), DataType::float32);
      return [&device, ones, result, rows] {
        device->run(SumOfRows{ones.buffer, result.buffer, rows, 1});
      };
    };
    const Array result = device->allocate(1, DataType::float32);
    const auto small = sum_rows(64, result);
    small();
    auto recording = device->record(small);
    const int objects = fake_cuda_objects();
    sum_rows(100'000, result)();
    CHECK(fake_cuda_objects() == objects + 1);  // there are two workspaces now
    recording->launch();
    CHECK(from_device(*device, result.buffer) == Doubles{64 + 100'000 + 64});
    recording.reset();
    CHECK(fake_cuda_objects() == objects);
  }
}

}  // namespace recording_test
