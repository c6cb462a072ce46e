#include "tests/support/compute_cases.hpp"
#include "trainers/gpt2/optimizer.hpp"
#include "trainers/gpt2/tests/compute_shapes.hpp"
#include "trainers/gpt2/tests/emulated_device.hpp"
#include "trainers/gpt2/tests/gpt2_models.hpp"
#include <ddprun/error.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <future>
#include <span>
#include <vector>

namespace cuda_compute_test {

using namespace trainer;
using namespace ddprun::test;
using ddprun::DataType;
using ddprun::Error;

namespace {

/// The largest difference, relative to the largest of the expected values if that is above 1.
double difference(const Doubles& actual, const Doubles& expected) {
  REQUIRE(actual.size() == expected.size());
  double largest = 1;
  double apart = 0;
  bool are_finite = true;
  for (std::size_t i = 0; i < actual.size(); ++i) {
    are_finite = are_finite && std::isfinite(actual[i]);
    largest = std::max(largest, std::abs(expected[i]));
    apart = std::max(apart, std::abs(actual[i] - expected[i]));
  }
  REQUIRE(are_finite);
  return apart / largest;
}

Doubles rounded_to_bfloat16(Compute& compute, const Doubles& values) {
  const Array array = on_device(compute, values, DataType::bfloat16);
  return from_device(compute, array.buffer);
}

/// Forward and backward passes of a case on the device, compared with those of the CPU in float64.
void check_case(const ComputeCase& one, DataType type, double tolerance) {
  CAPTURE(one.name);
  CAPTURE(to_string(type));
  const auto cpu = make_cpu_compute(1);
  const auto device = make_emulated_compute();
  std::mt19937 random(5);
  auto inputs = random_inputs(one, random);
  if (type == DataType::bfloat16) {
    for (Doubles& input : inputs) input = rounded_to_bfloat16(*device, input);
  }
  const Doubles exact = one.forward(*cpu, DataType::float64, inputs);
  Doubles output_gradient = random_doubles(exact.size(), random);
  if (type == DataType::bfloat16) output_gradient = rounded_to_bfloat16(*device, output_gradient);
  const Doubles output = one.forward(*device, type, inputs);
  CHECK(difference(output, exact) < tolerance);
  const auto gradients = one.backward(*device, type, inputs, output_gradient);
  const auto expected = one.backward(*cpu, DataType::float64, inputs, output_gradient);
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    CAPTURE(i);
    CHECK(difference(gradients[i], expected[i]) < 4 * tolerance);
  }
  const BackwardsKernels backwards;
  CHECK(output == one.forward(*device, type, inputs));
  CHECK(gradients == one.backward(*device, type, inputs, output_gradient));
}

void check_shape(const ComputeShape& shape, DataType type, double tolerance) {
  CAPTURE(shape.name);
  const auto cpu = make_cpu_compute(1);
  const auto device = make_emulated_compute();
  const auto expected = shape.run(*cpu, DataType::float32);
  const auto actual = shape.run(*device, type);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    CAPTURE(i);
    CHECK(difference(actual[i], expected[i]) < tolerance);
  }
  const BackwardsKernels backwards;
  CHECK(actual == shape.run(*device, type));
}

/// The losses of some steps on one batch, for a model with its initial values.
Doubles train_tiny(Compute& compute, DataType type) {
  constexpr int kSteps = 4;
  constexpr std::size_t kRows = 10;
  std::mt19937 random(6);
  gpt2::Shape shape = kTinyShape;
  shape.layers = 1;
  gpt2::Model model(compute, shape, 2, type);
  model.initialise(3);
  std::vector<Array> gradients;
  for (auto& parameter : model.parameters()) {
    gradients.push_back(compute.allocate(parameter.values.buffer.elements, DataType::float32));
    parameter.gradient = gradients.back().buffer;
  }
  gpt2::Optimizer optimizer(compute, model);
  const auto tokens = random_tokens(kRows, kTinyShape.vocabulary, random);
  const auto targets = random_tokens(kRows, kTinyShape.vocabulary, random);
  gpt2::Options options;
  options.lr = 0.1;
  options.lr_schedule = "constant";
  Doubles losses;
  for (int step = 1; step <= kSteps; ++step) {
    for (const Array& gradient : gradients) compute.zero(gradient.buffer);
    losses.push_back(loss_of(compute, model, tokens, targets, 1.0 / kRows));
    model.backward([](std::size_t) {});
    optimizer.set_step(options, step);
    optimizer.update(options);
  }
  return losses;
}

}  // namespace

TEST_SUITE("compute on CUDA") {
  TEST_CASE("CUDA compute: source memory can be changed right after a copy") {
    const LeavesNothing check;
    const auto device = make_emulated_compute();
    const auto check_copy = [&](std::size_t elements, const std::function<void()>& go_on) {
      const Array array = device->allocate(elements, DataType::float32);
      std::vector<float> values(elements, 1);
      device->copy_in(std::as_bytes(std::span(values)), array.buffer);
      std::fill(values.begin(), values.end(), 2.0F);
      go_on();
      device->copy_out(array.buffer, std::as_writable_bytes(std::span(values)));
      CHECK(values == std::vector<float>(elements, 1));
    };
    std::promise<void> wanted;
    launch_on(static_cast<cudaStream_t>(device->stream()),
              [is_wanted = wanted.get_future().share()] { is_wanted.wait(); });
    check_copy(10, [&] { wanted.set_value(); });
    check_copy(std::size_t{1} << 21U, [] {});
  }

  TEST_CASE("CUDA compute: every operation equals the CPU within float32 rounding") {
    const LeavesNothing check;
    for (const ComputeCase& one : compute_cases()) check_case(one, DataType::float32, 5e-6);
  }

  TEST_CASE("CUDA compute: every operation equals the CPU within bfloat16 rounding") {
    const LeavesNothing check;
    // 2^-9 for each rounding to 8 digits, of values up to 1 and a few roundings in sequence.
    for (const ComputeCase& one : compute_cases()) check_case(one, DataType::bfloat16, 0.012);
  }

  TEST_CASE("CUDA compute: operations of all kernel sizes equal the CPU") {
    const LeavesNothing check;
    for (const ComputeShape& shape : compute_shapes()) check_shape(shape, DataType::float32, 1e-5);
  }

  TEST_CASE("CUDA compute: operations of all kernel sizes equal the CPU in bfloat16") {
    const LeavesNothing check;
    // The inputs, too, are rounded to 8 digits.
    for (const ComputeShape& shape : compute_shapes()) check_shape(shape, DataType::bfloat16, 0.03);
  }

  TEST_CASE("CUDA compute: small network operations of any size equal the CPU") {
    const LeavesNothing check;
    for (const ComputeShape& shape : network_shapes()) check_shape(shape, DataType::float32, 1e-5);
  }

  TEST_CASE("CUDA compute: small network operations equal the CPU in bfloat16") {
    const LeavesNothing check;
    for (const ComputeShape& shape : network_shapes()) check_shape(shape, DataType::bfloat16, 0.03);
  }

  TEST_CASE("CUDA compute: attention with any head size equals the CPU") {
    const LeavesNothing check;
    for (const ComputeShape& shape : attention_shapes())
      check_shape(shape, DataType::float32, 1e-5);
  }

  TEST_CASE("CUDA compute: attention on tensor cores equals the CPU") {
    const LeavesNothing check;
    for (const ComputeShape& shape : attention_shapes())
      check_shape(shape, DataType::bfloat16, 0.03);
  }

  TEST_CASE("CUDA compute: the model's weights are the rounded master weights") {
    const LeavesNothing check;
    const auto device = make_emulated_compute();
    const auto of = [&](const Doubles& values, DataType type) {
      return on_device(*device, values, type);
    };
    const Array values = of({1, 1}, DataType::bfloat16);
    const Array master = of({1, 1}, DataType::float32);
    const Array gradient = of({1, -1}, DataType::bfloat16);
    const Array mean = of({0, 0}, DataType::float32);
    const Array square = of({0, 0}, DataType::float32);
    AdamW o{.values = values.buffer,
            .master = master.buffer,
            .gradient = gradient.buffer,
            .mean = mean.buffer,
            .square = square.buffer,
            .elements = 2,
            .learning_rate = 0.0005};
    // A step too small for bfloat16 near 1; eight of them are representable.
    for (o.step = 1; o.step <= 8; ++o.step) {
      device->run(o);
      if (o.step == 1) CHECK(from_device(*device, values.buffer) == Doubles{1, 1});
    }
    CHECK(difference(from_device(*device, master.buffer), {0.996, 1.004}) < 1e-6);
    CHECK(from_device(*device, values.buffer) == Doubles{0.99609375, 1.0078125});
  }

  TEST_CASE("CUDA compute: many parameters are updated by few launches") {
    const LeavesNothing check;
    const auto device = make_emulated_compute();
    constexpr std::size_t kParameters = 148;  // those of GPT-2 124M
    const Array memory = device->allocate(8, DataType::float32);
    const Array total = device->allocate(1, DataType::float64);
    const AddSum sum{memory.buffer, total.buffer, 8, true};
    const AdamW step{.values = memory.buffer,
                     .gradient = memory.buffer,
                     .mean = memory.buffer,
                     .square = memory.buffer,
                     .squared_norm = total.buffer,
                     .elements = 8};
    const auto launches_of = [&](const auto& operation) {
      const int before = emulated_launches();
      device->run(std::vector(kParameters, operation));
      return emulated_launches() - before;
    };
    CHECK(launches_of(sum) == 2);  // one with a table, and one that sums the rest
    CHECK(launches_of(step) == 4);
    CHECK(launches_of(Sgd{.values = memory.buffer, .gradient = memory.buffer, .elements = 8}) == 3);
    device->run(std::span<const AdamW>());
    // More sums than a launch takes have one total, too.
    const Array ones = on_device(*device, Doubles(8, 1), DataType::float32);
    device->zero(total.buffer);
    device->run(std::vector(400, AddSum{ones.buffer, total.buffer, 8}));
    CHECK(from_device(*device, total.buffer) == Doubles{3200});
  }

  TEST_CASE("CUDA compute: name and types and peak of the device are known") {
    const LeavesNothing check;
    const auto device = make_emulated_compute(1);
    CHECK(device->name() == "CUDA device 1, emulated");
    CHECK(device->device() == ddprun::Device{ddprun::Device::Kind::cuda, 1});
    CHECK(device->stream() != nullptr);
    CHECK(device->supports(DataType::bfloat16));
    CHECK_FALSE(device->supports(DataType::float64));
    CHECK(device->peak_flops(DataType::bfloat16) == doctest::Approx(1.07e15).epsilon(0.01));
    CHECK(device->peak_flops(DataType::float32) == doctest::Approx(67e12).epsilon(0.01));
    CHECK(device->peak_flops(DataType::float64) == 0);
    CHECK(cuda::peak_flops(true, 3, 5, 1, 1) == 0);
    CHECK_THROWS_WITH_AS(make_emulated_compute(2), "there is no CUDA device 2: visible are 2",
                         Error);
    CHECK_THROWS_WITH_AS(make_emulated_compute(-1), "there is no CUDA device -1: visible are 2",
                         Error);
  }

  TEST_CASE("CUDA compute: unsupported operations are rejected before any work") {
    const LeavesNothing check;
    const auto device = make_emulated_compute();
    const Array wide = device->allocate(3 * 129, DataType::float32);
    CHECK_THROWS_WITH_AS(device->run(Attention{.projections = wide.buffer,
                                               .output = wide.buffer,
                                               .log_sum = wide.buffer,
                                               .sequences = 1,
                                               .context = 1,
                                               .heads = 1,
                                               .head_size = 129}),
                         "attention: heads of 129 items, at most 128", Error);
    const Array doubles = device->allocate(4, DataType::float64);
    CHECK_THROWS_WITH_AS(
        device->run(Gelu{.input = doubles.buffer, .output = doubles.buffer, .elements = 4}),
        "CUDA devices compute in float32 and bfloat16, not in float64", Error);
    CHECK_THROWS_WITH_AS(
        device->run(Gelu{.input = wide.buffer, .output = wide.buffer, .elements = 1000}),
        "GELU: input has 387 elements, 1000 are needed", Error);
    CHECK_THROWS_WITH_AS(device->allocate(std::size_t{1} << 62U, DataType::float32),
                         "no memory on CUDA device 1 for 4611686018427387904 elements of type "
                         "float32: an error of the fake",
                         Error);
    std::vector<float> two(2);
    CHECK_THROWS_WITH_AS(device->copy_out(wide.buffer, std::as_writable_bytes(std::span(two))),
                         "copying out: 8 bytes of the program and 1548 of the device", Error);
  }

  TEST_CASE("CUDA compute: a tiny GPT-2 has the CPU's loss and gradients") {
    const LeavesNothing check;
    constexpr std::size_t kRows = 10;
    std::vector<Doubles> losses;
    std::vector<std::vector<Doubles>> gradients;
    const auto cpu = make_cpu_compute(1);
    const auto device = make_emulated_compute();
    for (Compute* compute : {cpu.get(), device.get()}) {
      std::mt19937 random(4);
      gpt2::Model model(*compute, kTinyShape, 2, DataType::float32);
      const auto memory = fill_randomly(*compute, model, random);
      const auto tokens = random_tokens(kRows, kTinyShape.vocabulary, random);
      const auto targets = random_tokens(kRows, kTinyShape.vocabulary, random);
      losses.push_back({loss_of(*compute, model, tokens, targets, 0.1)});
      model.backward([](std::size_t) {});
      gradients.emplace_back();
      for (const auto& parameter : model.parameters())
        gradients.back().push_back(from_device(*compute, parameter.gradient));
    }
    CHECK(losses[1][0] == doctest::Approx(losses[0][0]).epsilon(1e-5));
    for (std::size_t i = 0; i < gradients[0].size(); ++i)
      CHECK(difference(gradients[1][i], gradients[0][i]) < 3e-5);
  }

  TEST_CASE("CUDA compute: training equals the CPU and nearly so in bfloat16") {
    const LeavesNothing check;
    const auto cpu = make_cpu_compute(1);
    const auto device = make_emulated_compute();
    const Doubles expected = train_tiny(*cpu, DataType::float32);
    CHECK(expected.back() < 0.8 * expected.front());
    // AdamW divides by the root of a square: for a gradient near zero, its sign decides.
    CHECK(difference(train_tiny(*device, DataType::float32), expected) < 1e-4);
    CHECK(difference(train_tiny(*device, DataType::bfloat16), expected) < 0.05);
  }
}

}  // namespace cuda_compute_test
