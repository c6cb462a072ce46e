#include "worker_runtime/collectives/divide.hpp"

#include "worker_runtime/collectives/half.hpp"

namespace ddprun::collectives {

namespace {

struct Baseline {};
using Halves = Half<Baseline>;

template <typename T, typename Divide>
void for_each(Buffer buffer, const Divide& divided) {
  auto* const values = static_cast<T*>(buffer.data);
  for (std::size_t i = 0; i < buffer.elements; ++i) values[i] = divided(values[i]);
}

template <typename T>
void divide_as(Buffer buffer, int divisor) {
  for_each<T>(buffer,
              [divisor](T value) { return static_cast<T>(value / static_cast<T>(divisor)); });
}

template <typename T>
void scale_as(Buffer buffer, double factor) {
  for_each<T>(buffer,
              [factor](T value) { return static_cast<T>(static_cast<double>(value) * factor); });
}

}  // namespace

void divide(Buffer buffer, int divisor) {
  const auto float_divisor = static_cast<float>(divisor);
  switch (buffer.type) {
    case DataType::float32:
      return divide_as<float>(buffer, divisor);
    case DataType::float64:
      return divide_as<double>(buffer, divisor);
    case DataType::int64:
      return divide_as<std::int64_t>(buffer, divisor);
    case DataType::int32:
      return divide_as<std::int32_t>(buffer, divisor);
    case DataType::uint8:
      // The divisor may not fit into a byte.
      return for_each<std::uint8_t>(buffer, [divisor](std::uint8_t value) {
        return static_cast<std::uint8_t>(value / divisor);
      });
    case DataType::float16:
      return for_each<std::uint16_t>(buffer, [float_divisor](std::uint16_t value) {
        return Halves::to_float16(Halves::from_float16(value) / float_divisor);
      });
    case DataType::bfloat16:
      return for_each<std::uint16_t>(buffer, [float_divisor](std::uint16_t value) {
        return Halves::to_bfloat16(Halves::from_bfloat16(value) / float_divisor);
      });
  }
}

void scale(Buffer buffer, double factor) {
  const auto scaled = [factor](float value) {
    return static_cast<float>(static_cast<double>(value) * factor);
  };
  switch (buffer.type) {
    case DataType::float32:
      return scale_as<float>(buffer, factor);
    case DataType::float64:
      return scale_as<double>(buffer, factor);
    case DataType::int64:
      return scale_as<std::int64_t>(buffer, factor);
    case DataType::int32:
      return scale_as<std::int32_t>(buffer, factor);
    case DataType::uint8:
      return scale_as<std::uint8_t>(buffer, factor);
    case DataType::float16:
      return for_each<std::uint16_t>(buffer, [scaled](std::uint16_t value) {
        return Halves::to_float16(scaled(Halves::from_float16(value)));
      });
    case DataType::bfloat16:
      return for_each<std::uint16_t>(buffer, [scaled](std::uint16_t value) {
        return Halves::to_bfloat16(scaled(Halves::from_bfloat16(value)));
      });
  }
}

}  // namespace ddprun::collectives
