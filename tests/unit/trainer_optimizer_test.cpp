#include "trainers/trainer/optimizer.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

using trainer::Parameter;

namespace {

/// One parameter of one element, with its gradient.
struct Scalar {
  Parameter parameter{.name = "p", .index = 0, .values = {1}, .gradient = {}};
  std::vector<float> gradient = {0};
  std::vector<Parameter*> list = {&parameter};

  Scalar() { parameter.gradient = gradient; }
  float value() const { return parameter.values[0]; }
};

}  // namespace

TEST_SUITE("trainer optimizers") {
  TEST_CASE("sgd without momentum takes the gradient times the rate and has no state") {
    Scalar scalar;
    trainer::Sgd sgd(scalar.list, 0);
    scalar.gradient[0] = 2;
    sgd.update(scalar.list, 1, 0.25F);
    CHECK(scalar.value() == 0.5F);
    CHECK(sgd.state().empty());
  }

  TEST_CASE("sgd with momentum follows the velocity") {
    Scalar scalar;
    trainer::Sgd sgd(scalar.list, 0.5F);
    scalar.gradient[0] = 1;
    sgd.update(scalar.list, 1, 0.125F);  // velocity 1
    CHECK(scalar.value() == 0.875F);
    sgd.update(scalar.list, 2, 0.125F);  // velocity 1.5
    CHECK(scalar.value() == 0.6875F);
    scalar.gradient[0] = -1;
    sgd.update(scalar.list, 3, 0.125F);  // velocity -0.25
    CHECK(scalar.value() == 0.71875F);
    REQUIRE(sgd.state().size() == 1);
    CHECK(sgd.state()[0]->at(0) == -0.25F);
  }

  TEST_CASE("adam agrees with its definition, worked out in double precision") {
    Scalar scalar;
    trainer::Adam adam(scalar.list);
    double value = 1;
    double mean = 0;
    double square = 0;
    for (int step = 1; step <= 20; ++step) {
      const double gradient = std::cos(step) + 0.5;
      scalar.gradient[0] = static_cast<float>(gradient);
      adam.update(scalar.list, step, 0.01F);
      mean = 0.9 * mean + 0.1 * gradient;
      square = 0.999 * square + 0.001 * gradient * gradient;
      const double mean_hat = mean / (1 - std::pow(0.9, step));
      const double square_hat = square / (1 - std::pow(0.999, step));
      value -= 0.01 * mean_hat / (std::sqrt(square_hat) + 1e-8);
      // float32 has 7 digits; twenty updates lose at most one of them.
      CHECK(static_cast<double>(scalar.value()) == doctest::Approx(value).epsilon(1e-6));
    }
    CHECK(adam.state().size() == 2);
  }
}
