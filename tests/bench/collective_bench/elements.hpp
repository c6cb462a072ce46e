// Numbers as elements of a buffer.
#pragma once

#include "worker_runtime/collectives/half.hpp"
#include <ddprun/buffer.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace ddprun::bench {

/// The bytes of `value` as an element; the rest is zero.
inline std::array<std::byte, 8> element_of(DataType type, double value) {
  struct Here {};
  using Halves = collectives::Half<Here>;
  std::array<std::byte, 8> bytes{};
  const auto put = [&](auto stored) { std::memcpy(bytes.data(), &stored, sizeof stored); };
  switch (type) {
    case DataType::float32:
      put(static_cast<float>(value));
      break;
    case DataType::float64:
      put(value);
      break;
    case DataType::float16:
      put(Halves::to_float16(static_cast<float>(value)));
      break;
    case DataType::bfloat16:
      put(Halves::to_bfloat16(static_cast<float>(value)));
      break;
    case DataType::int32:
      put(static_cast<std::int32_t>(value));
      break;
    case DataType::int64:
      put(static_cast<std::int64_t>(value));
      break;
    case DataType::uint8:
      put(static_cast<std::uint8_t>(value));
      break;
  }
  return bytes;
}

inline void store_element(Buffer buffer, std::size_t index, double value) {
  const auto bytes = element_of(buffer.type, value);
  std::memcpy(buffer.slice(index, 1).data, bytes.data(), size_of(buffer.type));
}

inline bool holds_element(Buffer buffer, std::size_t index, double value) {
  const auto bytes = element_of(buffer.type, value);
  return std::memcmp(buffer.slice(index, 1).data, bytes.data(), size_of(buffer.type)) == 0;
}

}  // namespace ddprun::bench
