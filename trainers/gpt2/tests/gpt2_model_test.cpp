#include "trainers/gpt2/tests/gpt2_models.hpp"
#include <ddprun/error.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

namespace gpt2_model_test {

using namespace trainer;
using ddprun::DataType;
using ddprun::Error;
using ddprun::test::Doubles;
using ddprun::test::fill_randomly;
using ddprun::test::from_device;
using ddprun::test::kTinyShape;
using ddprun::test::loss_of;
using ddprun::test::on_device;
using ddprun::test::random_tokens;
using gpt2::Model;

namespace {

constexpr std::size_t kSequences = 2;
constexpr std::size_t kRows = kSequences * 5;
constexpr double kScale = 0.1;

const gpt2::GradientReady kIgnore = [](std::size_t) {};

std::vector<Doubles> gradients_of(Compute& compute, const Model& model) {
  std::vector<Doubles> gradients;
  for (const auto& parameter : model.parameters()) {
    gradients.push_back(from_device(compute, parameter.gradient));
  }
  return gradients;
}

}  // namespace

TEST_SUITE("GPT-2 model") {
  TEST_CASE("GPT-2 model: every gradient matches numerical slopes") {
    const auto compute = make_cpu_compute(1);
    std::mt19937 random(11);
    Model model(*compute, kTinyShape, kSequences, DataType::float64);
    const auto memory = fill_randomly(*compute, model, random);
    const auto tokens = random_tokens(kRows, kTinyShape.vocabulary, random);
    const auto targets = random_tokens(kRows, kTinyShape.vocabulary, random);
    loss_of(*compute, model, tokens, targets, kScale);
    model.backward(kIgnore);
    // With a step of 1e-5 the central difference of a float64 loss near 1 has 11 digits after
    // rounding; the third derivatives of two layers of weights near 1 cost one or two.
    constexpr double kStep = 1e-5;
    constexpr double kTolerance = 1e-8;
    for (auto& parameter : model.parameters()) {
      const Buffer& values = parameter.values.buffer;
      const Doubles expected = from_device(*compute, parameter.gradient);
      Doubles changed = from_device(*compute, values);
      const auto loss_at = [&](double& value, double moved) {
        value = moved;
        compute->copy_in(std::as_bytes(std::span(changed)), values);
        return loss_of(*compute, model, tokens, targets, kScale);
      };
      double largest = 0;
      for (std::size_t i = 0; i < changed.size(); ++i) {
        const double middle = changed[i];
        const double above = loss_at(changed[i], middle + kStep);
        const double below = loss_at(changed[i], middle - kStep);
        loss_at(changed[i], middle);
        largest = std::max(largest, std::abs(expected[i] - (above - below) / (2 * kStep)));
      }
      CHECK_MESSAGE(largest < kTolerance, parameter.spec.name, ": ", largest);
    }
  }

  TEST_CASE("GPT-2 model: float32 equals rounded float64") {
    const auto compute = make_cpu_compute(1);
    std::vector<std::vector<Doubles>> gradients;
    Doubles losses;
    for (const DataType type : {DataType::float64, DataType::float32}) {
      std::mt19937 random(4);
      Model model(*compute, kTinyShape, kSequences, type);
      const auto memory = fill_randomly(*compute, model, random);
      const auto tokens = random_tokens(kRows, kTinyShape.vocabulary, random);
      const auto targets = random_tokens(kRows, kTinyShape.vocabulary, random);
      losses.push_back(loss_of(*compute, model, tokens, targets, kScale));
      model.backward(kIgnore);
      gradients.push_back(gradients_of(*compute, model));
    }
    CHECK(losses[1] == doctest::Approx(losses[0]).epsilon(1e-5));
    for (std::size_t p = 0; p < gradients[0].size(); ++p) {
      for (std::size_t i = 0; i < gradients[0][p].size(); ++i) {
        // Gradients are of the order of 1; 1e-7 for each rounding of some hundred in sequence.
        CHECK(std::abs(gradients[1][p][i] - gradients[0][p][i]) < 3e-5);
      }
    }
  }

  TEST_CASE("GPT-2 model: two halves of a batch give the gradients of the whole") {
    const auto compute = make_cpu_compute(1);
    std::mt19937 random(8);
    Model model(*compute, kTinyShape, kSequences, DataType::float64);
    const auto memory = fill_randomly(*compute, model, random);
    const auto tokens = random_tokens(kRows, kTinyShape.vocabulary, random);
    const auto targets = random_tokens(kRows, kTinyShape.vocabulary, random);
    const double whole = loss_of(*compute, model, tokens, targets, kScale);
    model.backward(kIgnore);
    const auto expected = gradients_of(*compute, model);
    for (const auto& array : memory) compute->zero(array.buffer);
    double halves = 0;
    for (const std::size_t first : {std::size_t{0}, kRows / 2}) {
      const auto half = [&](const auto& all) {
        return std::vector(all.begin() + static_cast<std::ptrdiff_t>(first),
                           all.begin() + static_cast<std::ptrdiff_t>(first + kRows / 2));
      };
      halves += loss_of(*compute, model, half(tokens), half(targets), kScale);
      model.backward(kIgnore);
    }
    CHECK(halves == doctest::Approx(whole).epsilon(1e-12));
    const auto actual = gradients_of(*compute, model);
    for (std::size_t p = 0; p < actual.size(); ++p) {
      for (std::size_t i = 0; i < actual[p].size(); ++i) {
        CHECK(std::abs(actual[p][i] - expected[p][i]) < 1e-12);
      }
    }
  }

  TEST_CASE("GPT-2 model: gradients are announced once in reverse order of definition") {
    const auto compute = make_cpu_compute(1);
    std::mt19937 random(1);
    Model model(*compute, kTinyShape, kSequences, DataType::float32);
    const auto memory = fill_randomly(*compute, model, random);
    for (const std::size_t rows : {kRows, std::size_t{0}}) {
      const auto tokens = random_tokens(rows, kTinyShape.vocabulary, random);
      loss_of(*compute, model, tokens, tokens, kScale);
      std::vector<std::size_t> order;
      model.backward([&](std::size_t index) { order.push_back(index); });
      CHECK(order.size() == model.parameters().size());
      CHECK(std::is_sorted(order.rbegin(), order.rend()));
    }
  }

  TEST_CASE("GPT-2 model: a worker without sequences adds nothing") {
    const auto compute = make_cpu_compute(1);
    std::mt19937 random(1);
    Model model(*compute, kTinyShape, kSequences, DataType::float32);
    const auto memory = fill_randomly(*compute, model, random);
    CHECK(loss_of(*compute, model, {}, {}, kScale) == 0);
    model.backward(kIgnore);
    for (const Doubles& gradient : gradients_of(*compute, model)) {
      CHECK(gradient == Doubles(gradient.size(), 0));
    }
  }

  TEST_CASE("GPT-2 model: the initial loss is that of guessing and equal seeds start equally") {
    const auto compute = make_cpu_compute(1);
    gpt2::Shape shape = gpt2::preset("tiny");
    shape.vocabulary = 257;
    std::mt19937 random(1);
    const auto tokens = random_tokens(shape.context, shape.vocabulary, random);
    const auto targets = random_tokens(shape.context, shape.vocabulary, random);
    const auto loss = [&](std::uint64_t seed) {
      Model model(*compute, shape, 1, DataType::float32);
      model.initialise(seed);
      return loss_of(*compute, model, tokens, targets, 1 / static_cast<double>(shape.context));
    };
    CHECK(loss(1) == doctest::Approx(std::log(257)).epsilon(0.02));
    CHECK(loss(1) == loss(1));
    CHECK(loss(1) != loss(2));
  }

  TEST_CASE("GPT-2 model: invalid input is rejected") {
    const auto compute = make_cpu_compute(1);
    gpt2::Shape shape = kTinyShape;
    shape.heads = 3;
    CHECK_THROWS_WITH_AS(Model(*compute, shape, 1, DataType::float32),
                         "--heads 3 does not divide --channels 8", Error);
    CHECK_THROWS_WITH_AS(Model(*compute, kTinyShape, 1, DataType::bfloat16),
                         "CPU, 1 thread does not compute in bfloat16", Error);
    Model model(*compute, kTinyShape, 1, DataType::float32);
    const Array total = compute->allocate(1, DataType::float64);
    CHECK_THROWS_WITH_AS(model.forward(gpt2::make_batch(*compute, 2, 5), total.buffer, 1),
                         "10 tokens and 10 targets are not up to 1 whole sequences", Error);
  }
}

TEST_SUITE("GPT-2 shape") {
  TEST_CASE("GPT-2 shape: presets have the published numbers of parameters") {
    const auto parameters = [](const char* name) {
      gpt2::Shape shape = gpt2::preset(name);
      shape.vocabulary = 50257;
      std::size_t all = 0;
      for (const auto& spec : gpt2::parameters_of(shape)) all += spec.elements();
      return all - (shape.padded_vocabulary() - shape.vocabulary) * shape.channels;
    };
    CHECK(parameters("gpt2-124m") == 124'439'808);
    CHECK(parameters("gpt2-350m") == 354'823'168);
    CHECK(parameters("gpt2-774m") == 774'030'080);
    CHECK(parameters("gpt2-1558m") == 1'557'611'200);
    CHECK_THROWS_WITH_AS(gpt2::preset("gpt3"),
                         "there is no model 'gpt3': choose one of tiny, small, gpt2-124m, "
                         "gpt2-350m, gpt2-774m, gpt2-1558m",
                         Error);
  }

  TEST_CASE("GPT-2 shape: initial values have GPT-2's deviations and padding is zero") {
    gpt2::Shape shape = gpt2::preset("tiny");
    shape.vocabulary = 257;
    const auto deviation = [&](std::size_t index) {
      double squares = 0;
      const auto values = gpt2::first_values(shape, index, 3);
      for (const float value : values) squares += static_cast<double>(value) * value;
      return std::sqrt(squares / static_cast<double>(values.size()));
    };
    using gpt2::LayerParameter;
    CHECK(deviation(gpt2::kPositionTable) == doctest::Approx(0.02).epsilon(0.03));
    CHECK(deviation(gpt2::index_of(1, LayerParameter::hidden_weight)) ==
          doctest::Approx(0.02).epsilon(0.03));
    CHECK(deviation(gpt2::index_of(1, LayerParameter::contraction_weight)) ==
          doctest::Approx(0.01).epsilon(0.03));
    CHECK(deviation(gpt2::index_of(0, LayerParameter::norm2_weight)) == 1);
    CHECK(deviation(gpt2::final_norm_bias(shape)) == 0);
    const auto table = gpt2::first_values(shape, gpt2::kTokenTable, 3);
    CHECK(table.size() == 320 * shape.channels);
    CHECK(table[257 * shape.channels - 1] != 0);
    CHECK(std::all_of(table.begin() + static_cast<std::ptrdiff_t>(257 * shape.channels),
                      table.end(), [](float value) { return value == 0; }));
  }

  TEST_CASE("GPT-2 shape: invalid shapes are rejected with the option") {
    gpt2::Shape shape = kTinyShape;
    shape.layers = 0;
    CHECK_THROWS_WITH_AS(check(shape), "--layers must be within 1 and 16777216, not 0", Error);
    shape = kTinyShape;
    shape.context = std::numeric_limits<std::size_t>::max();
    CHECK_THROWS_AS(check(shape), Error);
  }

  TEST_CASE("GPT-2 shape: a token of the 124M model costs about 6 operations per weight") {
    gpt2::Shape shape = gpt2::preset("gpt2-124m");
    shape.vocabulary = 50257;
    CHECK(gpt2::flops_per_token(shape) == doctest::Approx(7.98e8).epsilon(0.01));
  }
}

}  // namespace gpt2_model_test
