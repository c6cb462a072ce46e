// The example of docs/reducer.md, compiled and run; also checks that the document shows it.
#include "tests/support/document.hpp"
#include "tests/support/rank_errors.hpp"
#include <ddprun/gradient_reducer.hpp>

#include <doctest/doctest.h>

#include <span>

namespace reducer_example_test {

using ddprun::as_buffer;
using ddprun::Buffer;
using ddprun::GradientReducer;
using ddprun::ProcessGroup;

namespace {

double train_step(GradientReducer& reducer, std::span<float> weights,
                  std::span<const float> inputs) {
  const Buffer buffer = reducer.gradient(0);  // valid while the reducer exists
  const std::span gradient(static_cast<float*>(buffer.data), buffer.elements);
  reducer.zero_gradients();
  reducer.begin();
  double loss = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const float error = weights[i] - inputs[i];
    loss += error * error;
    gradient[i] += 2 * error;
  }
  reducer.ready(0);  // its bucket can now be reduced
  reducer.finish();
  for (std::size_t i = 0; i < weights.size(); ++i) weights[i] -= 0.25f * gradient[i];
  return loss;
}

}  // namespace

TEST_SUITE("reducer example") {
  TEST_CASE("reducer example: training converges to the mean of the inputs") {
    const auto errors = ddprun::test::errors_of_ranks(2, [](ProcessGroup& group) {
      std::vector<float> weights(3);
      const std::vector<float> inputs(3, group.rank() == 0 ? 2.0f : 4.0f);
      GradientReducer reducer(group, {{"weights", as_buffer(weights.data(), weights.size())}});
      double loss = 0;
      for (int step = 0; step < 30; ++step) loss = train_step(reducer, weights, inputs);
      if (weights != std::vector<float>(3, 3.0f)) throw std::runtime_error("weights");
      if (loss != 3) throw std::runtime_error("loss " + std::to_string(loss));
    });
    CHECK(errors == std::vector<std::string>(2));
  }

  TEST_CASE("reducer example: the documentation shows the compiled example") {
    const auto here = ddprun::test::code_compiled_in("tests/unit/reducer_example_test.cpp");
    CHECK_FALSE(here.empty());
    CHECK(here == ddprun::test::code_shown_in("docs/reducer.md"));
  }
}

}  // namespace reducer_example_test
