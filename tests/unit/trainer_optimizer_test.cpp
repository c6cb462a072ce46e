#include "tests/support/device_arrays.hpp"
#include "trainers/trainer/optimizer.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

namespace trainer_optimizer_test {

using namespace trainer;
using ddprun::test::from_device;

namespace {

/// One parameter of one element, with its gradient.
struct Scalar {
  std::unique_ptr<Compute> compute = make_cpu_compute(1);
  Parameter parameter = make_parameter({compute.get()}, "p", {1}, std::vector<float>{1});
  Array gradient = compute->allocate(1, ddprun::DataType::float32);
  std::vector<Parameter*> list = {&parameter};

  Scalar() { parameter.gradient = gradient.buffer; }
  void put_gradient(float value) {
    compute->copy_in(std::as_bytes(std::span(&value, 1)), gradient.buffer);
  }
  double value() const { return from_device(*compute, parameter.values.buffer)[0]; }
};

}  // namespace

TEST_SUITE("trainer optimizers") {
  TEST_CASE("trainer optimizers: sgd without momentum has no state") {
    Scalar scalar;
    SgdOptimizer sgd(scalar.list, 0);
    scalar.put_gradient(2);
    sgd.update(scalar.list, 1, 0.25F);
    CHECK(scalar.value() == 0.5);
    CHECK(sgd.state().empty());
  }

  TEST_CASE("trainer optimizers: sgd with momentum matches its definition") {
    Scalar scalar;
    SgdOptimizer sgd(scalar.list, 0.5F);
    scalar.put_gradient(1);
    sgd.update(scalar.list, 1, 0.125F);  // velocity 1
    CHECK(scalar.value() == 0.875);
    sgd.update(scalar.list, 2, 0.125F);  // velocity 1.5
    CHECK(scalar.value() == 0.6875);
    scalar.put_gradient(-1);
    sgd.update(scalar.list, 3, 0.125F);  // velocity -0.25
    CHECK(scalar.value() == 0.71875);
    REQUIRE(sgd.state().size() == 1);
    CHECK(from_device(*scalar.compute, sgd.state()[0]->values.buffer)[0] == -0.25);
  }

  TEST_CASE("trainer optimizers: adam matches its definition in double precision") {
    Scalar scalar;
    AdamOptimizer adam(scalar.list);
    double value = 1;
    double mean = 0;
    double square = 0;
    for (int step = 1; step <= 20; ++step) {
      const double gradient = std::cos(step) + 0.5;
      scalar.put_gradient(static_cast<float>(gradient));
      adam.update(scalar.list, step, 0.01F);
      mean = 0.9 * mean + 0.1 * gradient;
      square = 0.999 * square + 0.001 * gradient * gradient;
      const double mean_hat = mean / (1 - std::pow(0.9, step));
      const double square_hat = square / (1 - std::pow(0.999, step));
      value -= 0.01 * mean_hat / (std::sqrt(square_hat) + 1e-8);
      // float32 has 7 digits; twenty updates lose at most one of them.
      CHECK(scalar.value() == doctest::Approx(value).epsilon(1e-6));
    }
    CHECK(adam.state().size() == 2);
  }
}

}  // namespace trainer_optimizer_test
