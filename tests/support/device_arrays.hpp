// Converts arrays of a Compute of any type from and to vectors of doubles, also random ones.
#pragma once

#include "trainers/compute/compute.hpp"

#include <bit>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

namespace ddprun::test {

using Doubles = std::vector<double>;

/// Uniform in [-1, 1].
inline Doubles random_doubles(std::size_t count, std::mt19937& random) {
  Doubles values(count);
  for (double& value : values) value = static_cast<double>(random() >> 8) * 0x1p-23 - 1;
  return values;
}

/// Returns an array on the device with the values rounded to nearest in `type`.
inline trainer::Array on_device(trainer::Compute& compute, const Doubles& values, DataType type) {
  trainer::Array exact = compute.allocate(values.size(), type);
  const auto copy = [&](const auto& elements) {
    compute.copy_in(std::as_bytes(std::span(elements)), exact.buffer);
  };
  if (type == DataType::float64) {
    copy(values);
    return exact;
  }
  const std::vector<float> rounded(values.begin(), values.end());
  if (type == DataType::float32) {
    copy(rounded);
    return exact;
  }
  std::vector<std::uint16_t> halves;
  for (const float value : rounded) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    halves.push_back(static_cast<std::uint16_t>((bits + 0x7fff + (bits >> 16U & 1U)) >> 16U));
  }
  copy(halves);
  return exact;
}

inline trainer::Array on_device(trainer::Compute& compute,
                                const std::vector<std::int32_t>& values) {
  trainer::Array array = compute.allocate(values.size(), DataType::int32);
  compute.copy_in(std::as_bytes(std::span(values)), array.buffer);
  return array;
}

/// Waits for the device.
inline Doubles from_device(trainer::Compute& compute, const Buffer& buffer) {
  const auto copy = [&](auto& elements) {
    compute.copy_out(buffer, std::as_writable_bytes(std::span(elements)));
  };
  if (buffer.type == DataType::bfloat16) {
    std::vector<std::uint16_t> halves(buffer.elements);
    copy(halves);
    Doubles values;
    for (const std::uint32_t half : halves) values.push_back(std::bit_cast<float>(half << 16U));
    return values;
  }
  if (buffer.type == DataType::float32) {
    std::vector<float> values(buffer.elements);
    copy(values);
    return {values.begin(), values.end()};
  }
  Doubles values(buffer.elements);
  copy(values);
  return values;
}

}  // namespace ddprun::test
