#include "tests/support/networks.hpp"
#include "trainers/trainer/loss.hpp"
#include "trainers/trainer/model.hpp"
#include <ddprun/error.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <random>
#include <string>
#include <vector>

namespace trainer_layers_test {

using namespace trainer;
using namespace ddprun::test;
using ddprun::DataType;

namespace {

/// Computes on the CPU.
struct Cpu {
  std::unique_ptr<Compute> compute = make_cpu_compute(1);
  Place exact = {compute.get(), DataType::float64};
  Place usual = {compute.get(), DataType::float32};
};

void put(const Parameter& parameter, std::size_t index, double value) {
  parameter.place.compute->copy_in(std::as_bytes(std::span(&value, 1)),
                                   parameter.values.buffer.slice(index, 1));
}

/// Central difference of `loss` by an element.
double slope(const Parameter& parameter, std::size_t index, double middle,
             const std::function<double()>& loss) {
  constexpr double kStep = 1e-4;
  put(parameter, index, middle + kStep);
  const double above = loss();
  put(parameter, index, middle - kStep);
  const double below = loss();
  put(parameter, index, middle);
  return (above - below) / (2 * kStep);
}

/// Compares every gradient of a parameter with the central difference of the whole model's loss. A
/// second layer below the tested one makes its input gradient part of the comparison.
void check_gradients(const Place& place, Model model, const std::string& loss_name) {
  constexpr std::size_t kRows = 5;
  constexpr std::size_t kInputs = 4;
  constexpr std::size_t kOutputs = 2;
  std::mt19937 random(7);
  const auto gradients = attach_gradients(model);
  const Matrix input = random_matrix(place, kRows, kInputs, random);
  const Matrix targets = random_matrix(place, kRows, kOutputs, random);
  const Array labels = on_device(*place.compute, {0, 1, 1, 0, 1});
  DeviceBatch batch({place, place});
  batch.labels = labels.buffer;
  batch.targets = targets.buffer();
  Loss measure(place, loss_name);
  const auto loss = [&] {
    const Array total = place.compute->allocate(1, DataType::float64);
    measure.run(model.forward(input, Mode::train), batch, 1, total.buffer);
    return from_device(*place.compute, total.buffer)[0];
  };
  Matrix& output = model.forward(input, Mode::train);
  measure.run(output, batch, 1, place.compute->allocate(1, DataType::float64).buffer);
  std::vector<std::string> ready;
  model.backward(input, output,
                 [&](const Parameter& parameter) { ready.push_back(parameter.name); });
  CHECK(ready.size() == model.parameters().size());

  for (Parameter* parameter : model.parameters()) {
    const Doubles got = from_device(*place.compute, parameter->gradient);
    const Doubles values = from_device(*place.compute, parameter->values.buffer);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double expected = slope(*parameter, i, values[i], loss);
      CHECK_MESSAGE(std::abs(got[i] - expected) < 1e-7 * (1 + std::abs(expected)), parameter->name,
                    "[", i, "]: ", got[i], " instead of ", expected);
    }
  }
}

Model sandwich(const Place& place, std::unique_ptr<Layer> middle) {
  std::mt19937 random(3);
  std::vector<std::unique_ptr<Layer>> layers;
  layers.push_back(std::make_unique<LinearLayer>(place, 4, 3, random));
  layers.push_back(std::move(middle));
  layers.push_back(std::make_unique<LinearLayer>(place, 3, 2, random));
  return Model(std::move(layers));
}

}  // namespace

TEST_SUITE("trainer layers") {
  TEST_CASE("trainer layers: gradients of every layer match numerical slopes") {
    const Cpu cpu;
    std::mt19937 random(5);
    SUBCASE("linear") {
      check_gradients(cpu.exact,
                      sandwich(cpu.exact, std::make_unique<LinearLayer>(cpu.exact, 3, 3, random)),
                      "mse");
    }
    SUBCASE("sigmoid") {
      check_gradients(cpu.exact,
                      sandwich(cpu.exact, std::make_unique<ActivationLayer>(
                                              cpu.exact, ActivationFunction::sigmoid)),
                      "mse");
    }
    SUBCASE("batch norm") {
      check_gradients(cpu.exact,
                      sandwich(cpu.exact, std::make_unique<BatchNormLayer>(cpu.exact, 3)), "mse");
    }
    SUBCASE("cross-entropy") {
      check_gradients(cpu.exact,
                      make_model({.name = "linear", .inputs = 4, .outputs = 2}, cpu.exact),
                      "cross_entropy");
    }
  }

  // Separate from the others: at its kink the difference is meaningless.
  TEST_CASE("trainer layers: relu passes positive values in both directions") {
    const Cpu cpu;
    ActivationLayer relu(cpu.usual, ActivationFunction::relu);
    const Matrix input = make_matrix(cpu.usual, 1, 4, {-1, 0, 2, 3});
    const Matrix output_gradient = make_matrix(cpu.usual, 1, 4, {5, 6, 7, 8});
    Matrix output;
    Matrix input_gradient;
    relu.forward(input, output, Mode::train);
    CHECK(values_of(cpu.usual, output) == Doubles{0, 0, 2, 3});
    relu.backward({input, output, output_gradient, &input_gradient}, {});
    CHECK(values_of(cpu.usual, input_gradient) == Doubles{0, 0, 7, 8});
  }

  TEST_CASE("trainer layers: a second backward pass adds to the gradients") {
    const Cpu cpu;
    std::mt19937 random(1);
    Model model =
        make_model({.name = "mlp", .inputs = 6, .outputs = 3, .batch_norm = true}, cpu.usual);
    const auto gradients = attach_gradients(model);
    const Matrix input = random_matrix(cpu.usual, 4, 6, random);
    const Matrix output_gradient = random_matrix(cpu.usual, 4, 3, random);
    const auto ignore = [](const Parameter&) {};
    model.forward(input, Mode::train);
    model.backward(input, output_gradient, ignore);
    const Doubles once = gradients_of(model);
    model.forward(input, Mode::train);
    model.backward(input, output_gradient, ignore);
    const Doubles twice = gradients_of(model);
    for (std::size_t i = 0; i < once.size(); ++i)
      CHECK(twice[i] == doctest::Approx(2 * once[i]).epsilon(1e-5));
  }

  TEST_CASE("trainer layers: gradients are announced once and in reverse order of the layers") {
    const Cpu cpu;
    Model model = make_model({.name = "seqnet", .inputs = 8, .outputs = 10}, cpu.usual);
    const auto gradients = attach_gradients(model);
    std::mt19937 random(1);
    const Matrix input = random_matrix(cpu.usual, 2, 8, random);
    const Matrix output_gradient = random_matrix(cpu.usual, 2, 10, random);
    std::vector<std::size_t> order;
    model.forward(input, Mode::train);
    model.backward(input, output_gradient,
                   [&](const Parameter& parameter) { order.push_back(parameter.index); });
    CHECK(order == std::vector<std::size_t>{5, 4, 3, 2, 1, 0});
  }

  TEST_CASE("trainer layers: a worker without samples announces zero gradients") {
    const Cpu cpu;
    for (const bool batch_norm : {false, true}) {
      Model model = make_model(
          {.name = "mlp", .inputs = 8, .outputs = 10, .batch_norm = batch_norm}, cpu.usual);
      const auto gradients = attach_gradients(model);
      const Matrix nothing = {0, 8};
      std::size_t announced = 0;
      const Matrix& output = model.forward(nothing, Mode::train);
      CHECK(output.rows == 0);
      model.backward(nothing, output, [&](const Parameter&) { ++announced; });
      CHECK(announced == model.parameters().size());
      for (const double value : gradients_of(model)) CHECK(value == 0);
      for (const StateBuffer* buffer : model.buffers()) {
        for (const double value : from_device(*cpu.compute, buffer->values.buffer))
          CHECK((value == 0 || value == 1));
      }
    }
  }

  TEST_CASE("trainer layers: batch norm uses running statistics in evaluation") {
    const Cpu cpu;
    BatchNormLayer layer(cpu.usual, 1);
    const Matrix input =
        make_matrix(cpu.usual, 4, 1, {1, 2, 3, 6});  // mean 3, biased variance 3.5, unbiased 14/3
    Matrix output;
    const auto running = [&](std::size_t which) {
      return from_device(*cpu.compute, layer.buffers()[which]->values.buffer)[0];
    };
    layer.forward(input, output, Mode::train);
    CHECK(values_of(cpu.usual, output)[0] == doctest::Approx(-2 / std::sqrt(3.5)).epsilon(1e-4));
    CHECK(running(0) == doctest::Approx(0.3));
    CHECK(running(1) == doctest::Approx(0.9 + 0.1 * 14 / 3));
    layer.forward(input, output, Mode::evaluate);
    CHECK(values_of(cpu.usual, output)[3] ==
          doctest::Approx((6 - 0.3) / std::sqrt(0.9 + 0.1 * 14 / 3)).epsilon(1e-4));
    CHECK(running(0) == doctest::Approx(0.3));
  }

  TEST_CASE("trainer layers: batch norm ignores the deviation of a single row") {
    const Cpu cpu;
    BatchNormLayer layer(cpu.usual, 1);
    Matrix output;
    layer.forward(make_matrix(cpu.usual, 1, 1, {5}), output, Mode::train);
    CHECK(from_device(*cpu.compute, layer.buffers()[0]->values.buffer)[0] == 0);
    CHECK(from_device(*cpu.compute, layer.buffers()[1]->values.buffer)[0] == 1);
  }

  TEST_CASE("trainer layers: initial weights are equal only for equal seeds") {
    const Cpu cpu;
    const auto first_weights = [&](std::uint64_t seed) {
      const Model model =
          make_model({.name = "mlp", .inputs = 8, .outputs = 10, .seed = seed}, cpu.usual);
      return from_device(*cpu.compute, model.parameters()[0]->values.buffer);
    };
    CHECK(first_weights(1) == first_weights(1));
    CHECK(first_weights(1) != first_weights(2));
  }

  TEST_CASE("trainer layers: a model that cannot be computed is rejected") {
    const Cpu cpu;
    CHECK_THROWS_WITH_AS(make_model({.name = "x"}, cpu.usual), "there is no model 'x'",
                         ddprun::Error);
    CHECK_THROWS_WITH_AS(make_model({.name = "mlp"}, Place{cpu.compute.get(), DataType::bfloat16}),
                         "CPU, 1 thread does not compute in bfloat16", ddprun::Error);
  }
}

TEST_SUITE("trainer losses") {
  /// Returns the sum of the losses, and replaces `output` by its gradient.
  double loss_of(const Place& place, const std::string& name, const Matrix& output,
                 const DeviceBatch& batch, double scale) {
    Loss loss(place, name);
    const Array total = place.compute->allocate(1, DataType::float64);
    loss.run(output, batch, scale, total.buffer);
    return from_device(*place.compute, total.buffer)[0];
  }

  TEST_CASE("trainer losses: losses and scaled gradients match their definitions") {
    const Cpu cpu;
    const Matrix output = make_matrix(cpu.usual, 2, 2, {1, 2, 3, 4});
    const Matrix targets = make_matrix(cpu.usual, 2, 2, {1, 0, 0, 4});
    const Array labels = on_device(*cpu.compute, {1, 0});
    DeviceBatch batch({cpu.usual, cpu.usual});
    batch.targets = targets.buffer();
    batch.labels = labels.buffer;
    // Row means of the squared errors: (0 + 4) / 2 and (9 + 0) / 2.
    CHECK(loss_of(cpu.usual, "mse", output, batch, 0.5) == doctest::Approx(6.5));
    CHECK(values_of(cpu.usual, output) == Doubles{0, 1, 1.5, 0});

    const Matrix logits = make_matrix(cpu.usual, 2, 2, {0, 0, std::log(3.0), 0});
    CHECK(loss_of(cpu.usual, "cross_entropy", logits, batch, 0.5) ==
          doctest::Approx(std::log(2.0) + std::log(4.0 / 3)));
    const Doubles expected = {0.25, -0.25, -0.125, 0.125};
    const Doubles gradient = values_of(cpu.usual, logits);
    for (std::size_t i = 0; i < expected.size(); ++i)
      CHECK(gradient[i] == doctest::Approx(expected[i]));
  }

  TEST_CASE("trainer losses: cross-entropy accepts large logits") {
    const Cpu cpu;
    const Array labels = on_device(*cpu.compute, {0});
    DeviceBatch batch({cpu.usual, cpu.usual});
    batch.labels = labels.buffer;
    const auto loss = [&](const Doubles& logits) {
      return loss_of(cpu.usual, "cross_entropy", make_matrix(cpu.usual, 1, 3, logits), batch, 1);
    };
    CHECK(loss({1000, 1000, -1000}) == doctest::Approx(std::log(2.0)));
    CHECK(loss({-1000, 1000, 1000}) == doctest::Approx(2000).epsilon(1e-3));
  }
}

}  // namespace trainer_layers_test
