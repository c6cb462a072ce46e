#include "tests/support/compute_cases.hpp"
#include "trainers/compute/adamw_pace.hpp"
#include "trainers/compute/cpu_math.hpp"
#include <ddprun/error.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace compute_test {

using namespace trainer;
using ddprun::DataType;
using ddprun::Error;
using ddprun::test::compute_cases;
using ddprun::test::ComputeCase;
using ddprun::test::Doubles;
using ddprun::test::from_device;
using ddprun::test::on_device;
using ddprun::test::random_doubles;
using ddprun::test::random_inputs;

namespace {

double product(const Doubles& left, const Doubles& right) {
  return std::inner_product(left.begin(), left.end(), right.begin(), 0.0);
}

/// Compares every gradient with the central difference.
void check_slopes(Compute& compute, const ComputeCase& one) {
  // In float64 the difference of two values near 1 whose arguments differ by 2e-4 has about 11
  // digits; the error of the third derivative is of the order of the squared step.
  constexpr double kStep = 1e-4;
  constexpr double kTolerance = 1e-7;
  std::mt19937 random(3);
  auto inputs = random_inputs(one, random);
  const Doubles output = one.forward(compute, DataType::float64, inputs);
  const Doubles output_gradient = random_doubles(output.size(), random);
  const auto gradients = one.backward(compute, DataType::float64, inputs, output_gradient);
  REQUIRE(gradients.size() == inputs.size());
  const auto loss = [&] {
    return product(one.forward(compute, DataType::float64, inputs), output_gradient);
  };
  for (std::size_t which = 0; which < inputs.size(); ++which) {
    REQUIRE(gradients[which].size() == inputs[which].size());
    for (std::size_t i = 0; i < inputs[which].size(); ++i) {
      const double middle = inputs[which][i];
      inputs[which][i] = middle + kStep;
      const double above = loss();
      inputs[which][i] = middle - kStep;
      const double below = loss();
      inputs[which][i] = middle;
      const double slope = (above - below) / (2 * kStep);
      CHECK_MESSAGE(std::abs(gradients[which][i] - slope) < kTolerance, one.name, ": input ", which,
                    "[", i, "]: ", gradients[which][i], " instead of ", slope);
    }
  }
}

void check_close(const Doubles& actual, const Doubles& expected, double tolerance) {
  REQUIRE(actual.size() == expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i) {
    CHECK_MESSAGE(std::abs(actual[i] - expected[i]) < tolerance, i, ": ", actual[i], " instead of ",
                  expected[i]);
  }
}

}  // namespace

TEST_SUITE("compute on the CPU") {
  TEST_CASE("CPU compute: the gradients of every operation match numerical slopes") {
    const auto compute = make_cpu_compute(1);
    for (const ComputeCase& one : compute_cases()) {
      CAPTURE(one.name);
      check_slopes(*compute, one);
    }
  }

  TEST_CASE("CPU compute: float32 results are deterministic and close to float64 results") {
    const auto compute = make_cpu_compute(1);
    std::mt19937 random(5);
    for (const ComputeCase& one : compute_cases()) {
      CAPTURE(one.name);
      const auto inputs = random_inputs(one, random);
      const Doubles exact = one.forward(*compute, DataType::float64, inputs);
      const Doubles output_gradient = random_doubles(exact.size(), random);
      const Doubles output = one.forward(*compute, DataType::float32, inputs);
      // Numbers about 1, and sums of at most 150 of them: an error of 1e-7 for each rounding.
      check_close(output, exact, 5e-6);
      CHECK(output == one.forward(*compute, DataType::float32, inputs));
      const auto gradients = one.backward(*compute, DataType::float32, inputs, output_gradient);
      const auto expected = one.backward(*compute, DataType::float64, inputs, output_gradient);
      for (std::size_t i = 0; i < gradients.size(); ++i) {
        check_close(gradients[i], expected[i], 2e-5);
      }
      CHECK(gradients == one.backward(*compute, DataType::float32, inputs, output_gradient));
    }
  }

  TEST_CASE("CPU compute: attention ignores later tokens") {
    const auto compute = make_cpu_compute(1);
    std::mt19937 random(9);
    for (const ComputeCase& one : compute_cases()) {
      if (one.name != "attention over 150 tokens") continue;
      auto inputs = random_inputs(one, random);
      const Doubles before = one.forward(*compute, DataType::float32, inputs);
      const std::size_t changed = 100;
      for (std::size_t i = changed * 24; i < inputs[0].size(); ++i) inputs[0][i] += 1;
      const Doubles after = one.forward(*compute, DataType::float32, inputs);
      const auto first_of_changed = std::mismatch(before.begin(), before.end(), after.begin());
      CHECK(first_of_changed.first - before.begin() == changed * 8);
    }
  }

  TEST_CASE("CPU compute: the vectorised exponential differs from std::exp in the last bits only") {
    for (float x = -86.9F; x < 87.9F; x += 0.0137F) {
      const double exact = std::exp(static_cast<double>(x));
      CHECK(std::abs(cpu::exponential(x) / exact - 1) < 2e-7);
    }
    CHECK(cpu::exponential(0.0F) == 1);
    CHECK(cpu::exponential(-1000.0F) < 1e-37F);
    CHECK(cpu::exponential(1000.0F) > 1e38F);
    CHECK(std::isnan(cpu::exponential(std::nanf(""))));
  }

  TEST_CASE("CPU compute: sums of any length include all items") {
    for (const std::size_t count : {0U, 1U, 15U, 16U, 17U, 100U}) {
      const std::size_t expected = count * (count - std::min<std::size_t>(count, 1)) / 2;
      CHECK(cpu::sum<double>(count, [](std::size_t i) { return static_cast<double>(i); }) ==
            static_cast<double>(expected));
    }
    const Doubles values = {-3, -1, -2};
    CHECK(cpu::largest(values.data(), values.size()) == -1);
  }

  TEST_CASE("CPU compute: a step of AdamW matches its definition with clipping and decay") {
    const auto compute = make_cpu_compute(1);
    const Array values = on_device(*compute, {2, -1}, DataType::float64);
    const Array gradient = on_device(*compute, {3, 4}, DataType::float64);
    const Array mean = on_device(*compute, {0.5, 0}, DataType::float64);
    const Array square = on_device(*compute, {0.25, 1}, DataType::float64);
    const Array norm = on_device(*compute, {1}, DataType::float64);
    compute->zero(norm.buffer);
    compute->run(
        AddSum{.values = gradient.buffer, .total = norm.buffer, .elements = 2, .squares = true});
    CHECK(from_device(*compute, norm.buffer) == Doubles{25});
    compute->run(AdamW{.values = values.buffer,
                       .gradient = gradient.buffer,
                       .mean = mean.buffer,
                       .square = square.buffer,
                       .squared_norm = norm.buffer,
                       .elements = 2,
                       .step = 3,
                       .learning_rate = 0.1,
                       .beta1 = 0.9,
                       .beta2 = 0.99,
                       .epsilon = 1e-8,
                       .weight_decay = 0.2,
                       .gradient_norm_max = 2});
    // Of norm 5 clipped to 2, the gradients are 1.2 and 1.6.
    check_close(from_device(*compute, mean.buffer), {0.57, 0.16}, 1e-6);
    check_close(from_device(*compute, square.buffer), {0.2619, 1.0156}, 1e-6);
    const double mean_correction = 1 - std::pow(0.9, 3);
    const double square_correction = 1 - std::pow(0.99, 3);
    const auto expected = [&](double value, double m, double s) {
      return value * (1 - 0.1 * 0.2) -
             0.1 * (m / mean_correction) / (std::sqrt(s / square_correction) + 1e-8);
    };
    check_close(from_device(*compute, values.buffer),
                {expected(2, 0.57, 0.2619), expected(-1, 0.16, 1.0156)}, 1e-6);
  }

  TEST_CASE("CPU compute: AdamW takes step and learning rate from memory if given") {
    const auto compute = make_cpu_compute(1);
    const Array gradient = on_device(*compute, {3, 4}, DataType::float64);
    const auto after = [&](AdamW o) {
      const Array values = on_device(*compute, {2, -1}, DataType::float64);
      const Array statistics = on_device(*compute, {0.5, 0.1, 0.25, 1}, DataType::float64);
      o.values = values.buffer;
      o.gradient = gradient.buffer;
      o.mean = statistics.buffer.slice(0, 2);
      o.square = statistics.buffer.slice(2, 2);
      o.elements = 2;
      o.weight_decay = 0.2;
      compute->run(o);
      return from_device(*compute, values.buffer);
    };
    const AdamWPace pace = adamw_pace(7, 0.1, AdamW{}.beta1, AdamW{}.beta2);
    const Array in_memory = on_device(
        *compute, {pace.learning_rate, pace.rate, pace.inverse_correction}, DataType::float64);
    const Doubles expected = after({.step = 7, .learning_rate = 0.1});
    CHECK(after({.pace = in_memory.buffer}) == expected);
    CHECK(after({.step = 8, .learning_rate = 0.1}) != expected);
    CHECK_THROWS_WITH_AS(after({.pace = in_memory.buffer.slice(0, 2)}),
                         "AdamW: pace has 2 elements, 3 are needed", Error);
  }

  TEST_CASE("CPU compute: conversion rounds to nearest and sums accumulate in float64") {
    const auto compute = make_cpu_compute(1);
    const Array wide = on_device(*compute, {1.0 / 3, 2}, DataType::float64);
    const Array narrow = compute->allocate(2, DataType::float32);
    compute->run(Convert{.input = wide.buffer, .output = narrow.buffer, .elements = 2});
    CHECK(from_device(*compute, narrow.buffer) == Doubles{static_cast<double>(1.0F / 3), 2});
    const Array total = on_device(*compute, {1e9}, DataType::float64);
    compute->run(AddSum{.values = narrow.buffer, .total = total.buffer, .elements = 2});
    CHECK(from_device(*compute, total.buffer)[0] == doctest::Approx(1e9 + 7.0 / 3).epsilon(1e-16));
  }

  TEST_CASE("CPU compute: an array of the wrong size is rejected by name before computing") {
    const auto compute = make_cpu_compute(1);
    const Array four = compute->allocate(4, DataType::float32);
    const Array three = compute->allocate(3, DataType::float32);
    const Array wide = compute->allocate(4, DataType::float64);
    const Array half = compute->allocate(4, DataType::bfloat16);
    Gelu operation = {.input = four.buffer, .output = three.buffer, .elements = 4};
    CHECK_THROWS_WITH_AS(compute->run(operation), "GELU: output has 3 elements, 4 are needed",
                         Error);
    operation.output = {};
    CHECK_THROWS_WITH_AS(compute->run(operation), "GELU: output is missing", Error);
    operation.output = wide.buffer;
    CHECK_THROWS_WITH_AS(
        compute->run(operation),
        "GELU: output is of type float64, which does not fit activations of type float32", Error);
    operation.output = four.buffer;
    operation.output.device = {ddprun::Device::Kind::cuda, 0};
    CHECK_THROWS_WITH_AS(compute->run(operation), "GELU: output is on another device", Error);
    operation = {.input = half.buffer, .output = half.buffer, .elements = 4};
    CHECK_THROWS_WITH_AS(compute->run(operation),
                         "the CPU computes in float32 and float64, not in bfloat16", Error);
    std::vector<float> two(2);
    CHECK_THROWS_WITH_AS(compute->copy_out(four.buffer, std::as_writable_bytes(std::span(two))),
                         "copying out: 8 bytes of the program and 16 of the device", Error);
  }

  TEST_CASE("CPU compute: a too large allocation is rejected with the requested size") {
    const auto compute = make_cpu_compute(1);
    CHECK_THROWS_WITH_AS(
        compute->allocate(std::size_t{1} << 62U, DataType::float64),
        "there is not enough memory for 4611686018427387904 elements of type float64", Error);
  }

  TEST_CASE("CPU compute: peak FLOPS are measured for float32 and 0 for unsupported types") {
    const auto compute = make_cpu_compute(1);
    CHECK(compute->peak_flops(DataType::float32) > 1e6);
    CHECK(compute->peak_flops(DataType::bfloat16) == 0);
  }
}

}  // namespace compute_test
