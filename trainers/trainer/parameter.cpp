#include "trainers/trainer/parameter.hpp"

#include <cmath>
#include <functional>
#include <numeric>

namespace trainer {

using ddprun::DataType;

namespace {

/// Converts float32 values to `type`.
Array converted(Compute& compute, const Array& exact, DataType type) {
  if (exact.buffer.type == type) return exact;
  Array result = compute.allocate(exact.buffer.elements, type);
  compute.run(
      Convert{.input = exact.buffer, .output = result.buffer, .elements = exact.buffer.elements});
  return result;
}

Array copied_in(Compute& compute, std::span<const float> values) {
  Array array = compute.allocate(values.size(), DataType::float32);
  compute.copy_in(std::as_bytes(values), array.buffer);
  return array;
}

/// Returns a uniform value within [-bound, bound). Distributions of the standard library differ
/// between implementations, and equal seeds must give equal models.
float uniform(std::mt19937& random, float bound) {
  const float unit = static_cast<float>(random() >> 8) * 0x1p-24F;
  return bound * (2 * unit - 1);
}

}  // namespace

Parameter make_parameter(const Place& place, const std::string& name,
                         const std::vector<std::size_t>& shape, std::span<const float> values) {
  Compute& compute = *place.compute;
  const Array first = copied_in(compute, values);
  Parameter parameter{.name = name,
                      .shape = shape,
                      .place = place,
                      .values = converted(compute, first, place.type),
                      .master = {}};
  parameter.master = place.type == DataType::bfloat16 ? first : parameter.values;
  compute.wait();  // before `first` is freed
  return parameter;
}

Parameter make_uniform_parameter(const Place& place, const std::string& name,
                                 const std::vector<std::size_t>& shape, std::size_t inputs,
                                 std::mt19937& random) {
  const auto count =
      std::accumulate(shape.begin(), shape.end(), std::size_t{1}, std::multiplies<>());
  const float bound = 1 / std::sqrt(static_cast<float>(inputs));
  std::vector<float> values(count);
  for (float& value : values) value = uniform(random, bound);
  return make_parameter(place, name, shape, values);
}

void publish(const Parameter& parameter) {
  const Buffer& values = parameter.values.buffer;
  if (values.type == parameter.master.buffer.type) return;
  parameter.place.compute->run(Convert{
      .input = parameter.master.buffer, .output = values, .elements = parameter.elements()});
}

StateBuffer make_state(const Place& place, std::size_t elements, float value) {
  Compute& compute = *place.compute;
  if (value == 0) return {&compute, compute.allocate(elements, place.exact_type())};
  const std::vector<float> values(elements, value);
  const Array first = copied_in(compute, values);
  StateBuffer state = {&compute, converted(compute, first, place.exact_type())};
  compute.wait();  // before `first` is freed
  return state;
}

}  // namespace trainer
