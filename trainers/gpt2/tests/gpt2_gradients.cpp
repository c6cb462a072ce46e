// Writes results of a small language model as one JSON object, for comparison with PyTorch: its
// parameters, the loss and the gradients of a batch, and the parameters after a few optimizer steps
// with the same batch. In float64, so that values that should be zero are near it.
#include "trainers/gpt2/optimizer.hpp"
#include "trainers/gpt2/tests/gpt2_models.hpp"

#include <nlohmann/json.hpp>

#include <cstdio>

using namespace trainer;
using ddprun::test::from_device;

int main() {
  constexpr std::size_t kSequences = 3;
  constexpr int kSteps = 4;
  const gpt2::Shape shape = {
      .layers = 2, .heads = 4, .channels = 32, .context = 12, .vocabulary = 70};
  gpt2::Options options;
  options.steps = 10;
  options.warmup_steps = 2;
  options.gradient_norm_max = 0.5;  // smaller than the real one

  const auto compute = make_cpu_compute(1);
  std::mt19937 random(2026);
  gpt2::Model model(*compute, shape, kSequences, ddprun::DataType::float64);
  const auto gradients = ddprun::test::fill_randomly(*compute, model, random);
  const std::size_t rows = kSequences * shape.context;
  const auto tokens = ddprun::test::random_tokens(rows, shape.vocabulary, random);
  const auto targets = ddprun::test::random_tokens(rows, shape.vocabulary, random);

  nlohmann::json result = {{"heads", shape.heads},
                           {"layers", shape.layers},
                           {"context", shape.context},
                           {"vocabulary", shape.vocabulary},
                           {"tokens", tokens},
                           {"targets", targets},
                           {"weight_decay", options.weight_decay},
                           {"betas", {options.beta1, options.beta2}},
                           {"gradient_norm_max", options.gradient_norm_max}};
  const auto record = [&](const char* what, const auto& buffer_of) {
    for (const gpt2::ModelParameter& parameter : model.parameters()) {
      result["parameters"][parameter.spec.name][what] = from_device(*compute, buffer_of(parameter));
      result["parameters"][parameter.spec.name]["shape"] = parameter.spec.shape;
    }
  };
  const auto values = [](const gpt2::ModelParameter& one) { return one.values.buffer; };
  record("values", values);
  gpt2::Optimizer optimizer(*compute, model);
  for (int step = 1; step <= kSteps; ++step) {
    for (const Array& gradient : gradients) compute->zero(gradient.buffer);
    result["losses"].push_back(
        ddprun::test::loss_of(*compute, model, tokens, targets, 1 / static_cast<double>(rows)));
    model.backward([](std::size_t) {});
    if (step == 1) {
      record("gradient", [](const gpt2::ModelParameter& one) { return one.gradient; });
    }
    optimizer.set_step(options, step);
    optimizer.update(options);
    result["norms"].push_back(optimizer.gradient_norm());
    result["rates"].push_back(gpt2::learning_rate(options, step));
  }
  record("updated", values);
  std::puts(result.dump().c_str());
  return 0;
}
