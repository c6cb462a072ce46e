#include "trainers/trainer/loss.hpp"
#include "trainers/trainer/model.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <random>
#include <string>
#include <vector>

using trainer::Matrix;
using trainer::Mode;
using trainer::Model;
using trainer::Parameter;

namespace {

float random_value(std::mt19937& random) {
  return static_cast<float>(random() >> 8) * 0x1p-23F - 1;
}

Matrix random_matrix(std::size_t rows, std::size_t columns, std::mt19937& random) {
  Matrix matrix;
  matrix.reshape(rows, columns);
  for (float& value : matrix.values) value = random_value(random);
  return matrix;
}

/// Gradients in memory of their own, as a reducer would give them.
std::vector<std::vector<float>> attach_gradients(Model& model) {
  std::vector<std::vector<float>> gradients;
  for (const Parameter* parameter : model.parameters()) {
    gradients.emplace_back(parameter->values.size());
  }
  for (std::size_t i = 0; i < gradients.size(); ++i) model.parameters()[i]->gradient = gradients[i];
  return gradients;
}

/// The slope of `loss` by `value`, from both sides. In float32 the loss has about 7 digits and the
/// step about 2, which leaves some 3 digits of the slope.
double slope(float& value, const std::function<double()>& loss) {
  constexpr float kStep = 1e-2F;
  const float middle = value;
  value = middle + kStep;
  const float above = value;
  const double loss_above = loss();
  value = middle - kStep;
  const float below = value;
  const double loss_below = loss();
  value = middle;
  return (loss_above - loss_below) / (static_cast<double>(above) - static_cast<double>(below));
}

constexpr double kTolerance = 2e-3;

/// Compares every gradient of a parameter with the slope of the loss of the whole model. A second
/// layer below the one that matters makes its input gradient part of the comparison.
void check_gradients(Model model, std::size_t inputs, const std::string& loss_name) {
  constexpr std::size_t kRows = 5;
  std::mt19937 random(7);
  const auto gradients = attach_gradients(model);
  const Matrix input = random_matrix(kRows, inputs, random);
  const std::size_t outputs = model.forward(input, Mode::train).columns;
  const Matrix targets = random_matrix(kRows, outputs, random);
  const std::vector<std::uint8_t> labels = {0, 1, 1, 0, 1};
  Matrix loss_gradient;
  const auto loss = [&] {
    const Matrix& output = model.forward(input, Mode::train);
    if (loss_name == "mse") return mean_squared_error(output, targets, 1, loss_gradient);
    return cross_entropy(output, labels, 1, loss_gradient);
  };
  loss();
  std::vector<std::string> ready;
  model.backward(input, loss_gradient,
                 [&](const Parameter& parameter) { ready.push_back(parameter.name); });
  CHECK(ready.size() == model.parameters().size());

  for (Parameter* parameter : model.parameters()) {
    for (std::size_t i = 0; i < parameter->values.size(); ++i) {
      const double expected = slope(parameter->values[i], loss);
      const double got = parameter->gradient[i];
      CHECK_MESSAGE(std::abs(got - expected) < kTolerance * (1 + std::abs(expected)),
                    parameter->name, "[", i, "]: ", got, " instead of ", expected);
    }
  }
}

template <typename Middle>
Model sandwich(std::unique_ptr<Middle> middle) {
  std::mt19937 random(3);
  std::vector<std::unique_ptr<trainer::Layer>> layers;
  layers.push_back(std::make_unique<trainer::Linear>(4, 3, random));
  layers.push_back(std::move(middle));
  layers.push_back(std::make_unique<trainer::Linear>(3, 2, random));
  return Model(std::move(layers));
}

}  // namespace

TEST_SUITE("trainer layers") {
  TEST_CASE("the gradients of every layer agree with the slope of the loss") {
    std::mt19937 random(5);
    SUBCASE("linear") {
      check_gradients(sandwich(std::make_unique<trainer::Linear>(3, 3, random)), 4, "mse");
    }
    SUBCASE("sigmoid") {
      check_gradients(sandwich(std::make_unique<trainer::Sigmoid>()), 4, "mse");
    }
    SUBCASE("batch norm") {
      check_gradients(sandwich(std::make_unique<trainer::BatchNorm>(3)), 4, "mse");
    }
    SUBCASE("log-softmax within") {
      check_gradients(sandwich(std::make_unique<trainer::LogSoftmax>()), 4, "mse");
    }
    SUBCASE("log-softmax before cross-entropy") {
      check_gradients(trainer::make_model({.name = "linear", .inputs = 4, .outputs = 2}), 4,
                      "cross_entropy");
    }
  }

  // Apart from the others: at its kink the slope says nothing.
  TEST_CASE("relu passes what is above zero, both ways") {
    trainer::Relu relu;
    const Matrix input = {1, 4, {-1, 0, 2, 3}};
    const Matrix output_gradient = {1, 4, {5, 6, 7, 8}};
    Matrix output;
    Matrix input_gradient;
    relu.forward(input, output, Mode::train);
    CHECK(output.values == std::vector<float>{0, 0, 2, 3});
    relu.backward({input, output, output_gradient, &input_gradient}, {});
    CHECK(input_gradient.values == std::vector<float>{0, 0, 7, 8});
  }

  TEST_CASE("a second backward pass adds to the gradients of the first") {
    std::mt19937 random(1);
    Model model =
        trainer::make_model({.name = "mlp", .inputs = 6, .outputs = 3, .batch_norm = true});
    const auto gradients = attach_gradients(model);
    const Matrix input = random_matrix(4, 6, random);
    const Matrix output_gradient = random_matrix(4, 3, random);
    const auto ignore = [](const Parameter&) {};
    model.forward(input, Mode::train);
    model.backward(input, output_gradient, ignore);
    std::vector<float> once;
    for (const Parameter* parameter : model.parameters()) {
      once.insert(once.end(), parameter->gradient.begin(), parameter->gradient.end());
    }
    model.forward(input, Mode::train);
    model.backward(input, output_gradient, ignore);
    std::size_t i = 0;
    for (const Parameter* parameter : model.parameters()) {
      for (const float value : parameter->gradient) CHECK(value == doctest::Approx(2 * once[i++]));
    }
  }

  TEST_CASE("gradients are announced in reverse order of definition, each once") {
    Model model = trainer::make_model({.name = "seqnet", .inputs = 8, .outputs = 10});
    const auto gradients = attach_gradients(model);
    std::mt19937 random(1);
    const Matrix input = random_matrix(2, 8, random);
    const Matrix output_gradient = random_matrix(2, 10, random);
    std::vector<std::size_t> order;
    model.forward(input, Mode::train);
    model.backward(input, output_gradient,
                   [&](const Parameter& parameter) { order.push_back(parameter.index); });
    CHECK(order == std::vector<std::size_t>{5, 4, 3, 2, 1, 0});
  }

  TEST_CASE("a worker without samples announces its gradients and adds nothing to them") {
    for (const bool batch_norm : {false, true}) {
      Model model = trainer::make_model(
          {.name = "mlp", .inputs = 8, .outputs = 10, .batch_norm = batch_norm});
      const auto gradients = attach_gradients(model);
      Matrix nothing;
      nothing.reshape(0, 8);
      Matrix no_gradient;
      no_gradient.reshape(0, 10);
      std::size_t announced = 0;
      CHECK(model.forward(nothing, Mode::train).rows == 0);
      model.backward(nothing, no_gradient, [&](const Parameter&) { ++announced; });
      CHECK(announced == model.parameters().size());
      for (const Parameter* parameter : model.parameters()) {
        for (const float value : parameter->gradient) CHECK(value == 0);
      }
      for (const trainer::StateBuffer* buffer : model.buffers()) {
        for (const float value : *buffer) CHECK((value == 0 || value == 1));
      }
    }
  }

  TEST_CASE("batch norm keeps running statistics and uses them for evaluation") {
    trainer::BatchNorm layer(1);
    const Matrix input = {4, 1, {1, 2, 3, 6}};  // mean 3, biased variance 3.5, unbiased 14/3
    Matrix output;
    layer.forward(input, output, Mode::train);
    CHECK(output.values[0] == doctest::Approx(-2 / std::sqrt(3.5)).epsilon(1e-4));
    CHECK(layer.buffers()[0]->at(0) == doctest::Approx(0.3));
    CHECK(layer.buffers()[1]->at(0) == doctest::Approx(0.9 + 0.1 * 14 / 3));
    layer.forward(input, output, Mode::evaluate);
    CHECK(output.values[3] ==
          doctest::Approx((6 - 0.3) / std::sqrt(0.9 + 0.1 * 14 / 3)).epsilon(1e-4));
    CHECK(layer.buffers()[0]->at(0) == doctest::Approx(0.3));
  }

  TEST_CASE("log-softmax survives large numbers") {
    trainer::LogSoftmax layer;
    Matrix output;
    layer.forward({1, 3, {1000, 1000, -1000}}, output, Mode::train);
    CHECK(output.values[0] == doctest::Approx(std::log(0.5)));
    CHECK(output.values[2] == doctest::Approx(-2000).epsilon(1e-3));
  }

  TEST_CASE("equal seeds make equal models and other seeds others") {
    const auto first_weight = [](std::uint64_t seed) {
      return trainer::make_model({.name = "mlp", .inputs = 8, .outputs = 10, .seed = seed})
          .parameters()[0]
          ->values[0];
    };
    CHECK(first_weight(1) == first_weight(1));
    CHECK(first_weight(1) != first_weight(2));
  }
}

TEST_SUITE("trainer losses") {
  TEST_CASE("losses and their scaled gradients have the values of their definitions") {
    Matrix gradient;
    const Matrix output = {2, 2, {1, 2, 3, 4}};
    const Matrix targets = {2, 2, {1, 0, 0, 4}};
    // Row means of the squared errors: (0 + 4) / 2 and (9 + 0) / 2.
    CHECK(mean_squared_error(output, targets, 0.5F, gradient) == doctest::Approx(6.5));
    CHECK(gradient.values == std::vector<float>{0, 1, 1.5, 0});

    const Matrix log_probabilities = {2, 2, {-0.25F, -1.5F, -0.5F, -1}};
    const std::vector<std::uint8_t> labels = {1, 0};
    CHECK(cross_entropy(log_probabilities, labels, 0.5F, gradient) == doctest::Approx(2.0));
    CHECK(gradient.values == std::vector<float>{0, -0.5, -0.5, 0});
  }
}
