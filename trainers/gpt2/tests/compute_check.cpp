// Compares a real CUDA device with the CPU, operation by operation, for tests/gpu/run. Prints a
// line for each type; exits with 1 if a result differs too much.
#include "trainers/gpt2/tests/compute_shapes.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <exception>
#include <utility>

using namespace ddprun;
using namespace ddprun::test;

namespace {

/// The largest difference, relative to the largest of the expected values if that is above 1.
double difference(const Doubles& actual, const Doubles& expected) {
  double largest = 1;
  double apart = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (!std::isfinite(actual[i])) return INFINITY;
    largest = std::max(largest, std::abs(expected[i]));
    apart = std::max(apart, std::abs(actual[i] - expected[i]));
  }
  return apart / largest;
}

/// Also checks that a second run gives the same bits.
bool check(trainer::Compute& cpu, trainer::Compute& device, DataType type, double tolerance) {
  double worst = 0;
  bool is_good = true;
  auto shapes = compute_shapes();
  for (auto& shape : attention_shapes()) shapes.push_back(std::move(shape));
  for (auto& shape : network_shapes()) shapes.push_back(std::move(shape));
  for (const ComputeShape& shape : shapes) {
    const auto expected = shape.run(cpu, DataType::float32);
    const auto actual = shape.run(device, type);
    double apart = 0;
    for (std::size_t i = 0; i < expected.size(); ++i)
      apart = std::max(apart, difference(actual[i], expected[i]));
    const bool is_same = shape.run(device, type) == actual;
    if (apart > tolerance || !is_same) {
      std::printf("%s in %s: %.2g from the CPU's%s\n", shape.name.c_str(), to_string(type), apart,
                  is_same ? "" : ", other bits when run again");
      is_good = false;
    }
    worst = std::max(worst, apart);
  }
  std::printf("%s, all operations: at most %.2g from the CPU's\n", to_string(type), worst);
  return is_good;
}

}  // namespace

int main() {
  try {
    const auto cpu = trainer::make_cpu_compute(1);
    const auto device = trainer::make_cuda_compute(0);
    std::printf("%s, at most %.0f TFLOP/s in bfloat16\n", device->name().c_str(),
                device->peak_flops(DataType::bfloat16) / 1e12);
    const bool is_good = check(*cpu, *device, DataType::float32, 1e-5);
    return check(*cpu, *device, DataType::bfloat16, 0.03) && is_good ? 0 : 1;
  } catch (const std::exception& exception) {
    std::fprintf(stderr, "compute_check: %s\n", exception.what());
    return 1;
  }
}
