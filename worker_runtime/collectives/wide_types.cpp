#include "worker_runtime/collectives/wide_types.hpp"

#include "worker_runtime/collectives/divide.hpp"
#include "worker_runtime/collectives/float_environment.hpp"
#include "worker_runtime/collectives/half.hpp"

#include <cstdint>
#include <cstring>

namespace ddprun::collectives {

namespace {

struct WideTypesTag {};  // tag of this file's copy of Half
using Halves = Half<WideTypesTag>;

template <typename From, typename To, typename Convert>
void convert(const void* from, void* to, std::size_t elements, Convert each) {
  const auto* source = static_cast<const From*>(from);
  auto* destination = static_cast<To*>(to);
  for (std::size_t i = 0; i < elements; ++i) destination[i] = each(source[i]);
}

bool is_half(DataType type) {
  return type == DataType::float16 || type == DataType::bfloat16;
}

}  // namespace

DataType partial_type(DataType type, ReduceOp op) {
  if (is_half(type)) return DataType::float32;
  const bool is_small = type == DataType::int32 || type == DataType::uint8;
  return is_small && op == ReduceOp::average ? DataType::int64 : type;
}

ReduceOp partial_op(ReduceOp op) {
  return op == ReduceOp::average ? ReduceOp::sum : op;
}

void widen(DataType type, ReduceOp op, const void* from, void* to, std::size_t elements) {
  if (type == DataType::bfloat16) {
    convert<std::uint16_t, float>(from, to, elements, Halves::from_bfloat16);
  } else if (type == DataType::float16) {
    convert<std::uint16_t, float>(from, to, elements, Halves::from_float16);
  } else if (partial_type(type, op) == type) {
    if (elements > 0) std::memcpy(to, from, elements * size_of(type));
  } else if (type == DataType::int32) {
    convert<std::int32_t, std::int64_t>(from, to, elements,
                                        [](std::int32_t value) { return std::int64_t{value}; });
  } else {
    convert<std::uint8_t, std::int64_t>(from, to, elements,
                                        [](std::uint8_t value) { return std::int64_t{value}; });
  }
}

void complete(DataType type, ReduceOp op, int ranks, Buffer partial, void* to) {
  const DefaultFloatEnvironment environment;
  if (op == ReduceOp::average) divide(partial, ranks);
  const void* const from = partial.data;
  if (type == DataType::bfloat16) {
    convert<float, std::uint16_t>(from, to, partial.elements, Halves::to_bfloat16);
  } else if (type == DataType::float16) {
    convert<float, std::uint16_t>(from, to, partial.elements, Halves::to_float16);
  } else if (partial.type == type) {
    if (from != to && partial.elements > 0) std::memcpy(to, from, partial.bytes());
  } else if (type == DataType::int32) {
    convert<std::int64_t, std::int32_t>(from, to, partial.elements, [](std::int64_t value) {
      return static_cast<std::int32_t>(value);
    });
  } else {
    convert<std::int64_t, std::uint8_t>(from, to, partial.elements, [](std::int64_t value) {
      return static_cast<std::uint8_t>(value);
    });
  }
}

}  // namespace ddprun::collectives
