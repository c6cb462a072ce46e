// Typed, non-owning views of memory, used as arguments of collectives. Plain values; thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ddprun {

/// Element types.
enum class DataType : std::uint8_t {
  float32,
  float64,
  float16,   ///< IEEE 754 binary16
  bfloat16,  ///< the upper half of a float32
  int32,
  int64,
  uint8,
};

/// Returns the size of an element in bytes.
constexpr std::size_t size_of(DataType type) {
  switch (type) {
    case DataType::float64:
    case DataType::int64:
      return 8;
    case DataType::float32:
    case DataType::int32:
      return 4;
    case DataType::float16:
    case DataType::bfloat16:
      return 2;
    case DataType::uint8:
      return 1;
  }
  return 0;
}

/// Returns the name, such as "float32".
const char* to_string(DataType type) noexcept;

/// Reduction operators. Half types are combined in float32 and rounded once. `average` divides the
/// sum by the number of ranks; integers are rounded towards zero.
enum class ReduceOp : std::uint8_t { sum, average, product, min, max };

/// Returns the name, such as "sum".
const char* to_string(ReduceOp op) noexcept;

/// Location of memory.
struct Device {
  /// Kinds of memory.
  enum class Kind : std::uint8_t { cpu, cuda };
  Kind kind = Kind::cpu;  ///< kind of memory
  int index = 0;          ///< CUDA device; 0 for the CPU

  bool operator==(const Device&) const = default;
};

/// A view of `elements` elements of `type` at `data`. The memory belongs to the caller and must
/// live until the Work that uses it has ended.
struct Buffer {
  void* data = nullptr;               ///< first element
  std::size_t elements = 0;           ///< number of elements
  DataType type = DataType::float32;  ///< type of each element
  Device device = {};                 ///< location of `data`

  /// Returns the size of all elements in bytes.
  std::size_t bytes() const { return elements * size_of(type); }

  /// Returns a view of `count` elements that starts at element `first`.
  Buffer slice(std::size_t first, std::size_t count) const {
    return {static_cast<std::byte*>(data) + first * size_of(type), count, type, device};
  }
};

/// Returns a Buffer for memory on the CPU.
inline Buffer as_buffer(float* data, std::size_t elements) {
  return {data, elements, DataType::float32};
}
inline Buffer as_buffer(double* data, std::size_t elements) {
  return {data, elements, DataType::float64};
}
inline Buffer as_buffer(std::int32_t* data, std::size_t elements) {
  return {data, elements, DataType::int32};
}
inline Buffer as_buffer(std::int64_t* data, std::size_t elements) {
  return {data, elements, DataType::int64};
}
inline Buffer as_buffer(std::uint8_t* data, std::size_t elements) {
  return {data, elements, DataType::uint8};
}

}  // namespace ddprun
