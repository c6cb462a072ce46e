#include "tests/support/serial_collectives.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <type_traits>

namespace ddprun::test {

namespace {

// Rounds to half types by definition, by a search for the nearest value, unlike the bit tricks of
// the kernels.
float half_value(std::uint16_t bits, int fraction_bits, int bias) {
  const int fraction = bits & ((1 << fraction_bits) - 1);
  const int exponent = (bits & 0x7fff) >> fraction_bits;
  const float sign = (bits & 0x8000) != 0 ? -1.0F : 1.0F;
  const int exponent_max = (0x7fff >> fraction_bits);
  if (exponent == exponent_max) return fraction != 0 ? NAN : sign * INFINITY;
  const float scaled = static_cast<float>(fraction + (exponent > 0 ? 1 << fraction_bits : 0));
  return sign * std::ldexp(scaled, std::max(exponent, 1) - bias - fraction_bits);
}

std::uint16_t to_half(float value, int fraction_bits, int bias) {
  const std::uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  if (std::isnan(value)) return static_cast<std::uint16_t>(sign | 0x7fff);
  const double magnitude = std::fabs(value);
  // Positive half values have the order of their bits: finds the last one that is not larger.
  std::uint16_t low = 0;
  std::uint16_t high = static_cast<std::uint16_t>((0x7fff >> fraction_bits) << fraction_bits);
  if (std::isinf(value)) return sign | high;
  while (high - low > 1) {
    const auto middle = static_cast<std::uint16_t>((low + high) / 2);
    (half_value(middle, fraction_bits, bias) <= magnitude ? low : high) = middle;
  }
  // Beyond the largest finite value, rounding continues as if another one followed.
  const double below = half_value(low, fraction_bits, bias);
  const double above = std::isinf(half_value(high, fraction_bits, bias))
                           ? std::ldexp(1.0, bias + 1)
                           : half_value(high, fraction_bits, bias);
  const double middle = (below + above) / 2;
  const bool up = magnitude > middle || (magnitude == middle && (low & 1) != 0);
  return static_cast<std::uint16_t>(sign | (up ? high : low));
}

template <typename T>
struct Identity {
  static T load(T value) { return value; }
  static T store(T value) { return value; }
};

template <int kFractionBits, int kBias>
struct HalfFormat {
  static float load(std::uint16_t bits) {
    static const std::vector<float> values = [] {
      std::vector<float> all;
      for (unsigned i = 0; i < 0x10000; ++i)
        all.push_back(half_value(static_cast<std::uint16_t>(i), kFractionBits, kBias));
      return all;
    }();
    return values[bits];
  }
  static std::uint16_t store(float value) { return to_half(value, kFractionBits, kBias); }
};

/// 64-bit integers wrap around.
template <typename Wide>
Wide multiply(Wide a, Wide b) {
  if constexpr (std::is_integral_v<Wide>) {
    return static_cast<Wide>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
  } else {
    return a * b;
  }
}

template <typename Wide>
Wide apply(ReduceOp op, Wide a, Wide b) {
  switch (op) {
    case ReduceOp::sum:
    case ReduceOp::average:
      return a + b;
    case ReduceOp::product:
      return multiply(a, b);
    case ReduceOp::min:
      return std::min(a, b);
    case ReduceOp::max:
      return std::max(a, b);
  }
  return a;
}

/// `Wide` is the type of the computation; the inputs are such that 64-bit sums do not overflow.
template <typename Stored, typename Wide, typename Format>
Bytes reduce_as(const std::vector<Bytes>& inputs, ReduceOp op, const std::vector<int>& on_nodes) {
  Bytes result(inputs[0].size());
  for (std::size_t at = 0; at < result.size(); at += sizeof(Stored)) {
    Wide sum{};
    std::size_t rank = 0;
    for (std::size_t node = 0; node < on_nodes.size(); ++node) {
      Wide of_node{};
      for (int i = 0; i < on_nodes[node]; ++i, ++rank) {
        Stored stored;
        std::memcpy(&stored, &inputs[rank][at], sizeof stored);
        const Wide value = static_cast<Wide>(Format::load(stored));
        of_node = i == 0 ? value : apply(op, of_node, value);
      }
      sum = node == 0 ? of_node : apply(op, sum, of_node);
    }
    if (op == ReduceOp::average) sum = sum / static_cast<Wide>(inputs.size());
    const Stored stored = static_cast<Stored>(Format::store(sum));
    std::memcpy(&result[at], &stored, sizeof stored);
  }
  return result;
}

void store_value(std::byte* to, DataType type, double value) {
  const auto put = [&](auto stored) { std::memcpy(to, &stored, sizeof stored); };
  switch (type) {
    case DataType::float32:
      return put(static_cast<float>(value));
    case DataType::float64:
      return put(value);
    case DataType::float16:
      return put(HalfFormat<10, 15>::store(static_cast<float>(value)));
    case DataType::bfloat16:
      return put(HalfFormat<7, 127>::store(static_cast<float>(value)));
    case DataType::int32:
      return put(static_cast<std::int32_t>(value));
    case DataType::int64:
      return put(static_cast<std::int64_t>(value));
    case DataType::uint8:
      return put(static_cast<std::uint8_t>(static_cast<std::int64_t>(value)));
  }
}

template <typename Next>
std::vector<Bytes> fill_inputs(int ranks, std::size_t elements, DataType type, const Next& next) {
  std::vector<Bytes> inputs;
  for (int rank = 0; rank < ranks; ++rank) {
    std::mt19937 random(static_cast<unsigned>(rank) * 1000 + static_cast<unsigned>(elements));
    Bytes bytes(elements * size_of(type));
    for (std::size_t i = 0; i < elements; ++i)
      store_value(bytes.data() + i * size_of(type), type, next(random));
    inputs.push_back(std::move(bytes));
  }
  return inputs;
}

}  // namespace

std::vector<Bytes> make_inputs(int ranks, std::size_t elements, DataType type) {
  const bool is_integer =
      type == DataType::int32 || type == DataType::int64 || type == DataType::uint8;
  return fill_inputs(ranks, elements, type, [is_integer](std::mt19937& random) {
    const double value = (static_cast<double>(random() % 20001) - 10000) / 777.0;
    return is_integer ? value * 100 : value;
  });
}

std::vector<Bytes> make_whole_inputs(int ranks, std::size_t elements, DataType type) {
  return fill_inputs(ranks, elements, type,
                     [](std::mt19937& random) { return static_cast<double>(random() % 9); });
}

Bytes serial_reduce(const std::vector<Bytes>& inputs, DataType type, ReduceOp op,
                    std::vector<int> on_nodes) {
  if (on_nodes.empty()) on_nodes = {static_cast<int>(inputs.size())};
  switch (type) {
    case DataType::float32:
      return reduce_as<float, float, Identity<float>>(inputs, op, on_nodes);
    case DataType::float64:
      return reduce_as<double, double, Identity<double>>(inputs, op, on_nodes);
    case DataType::float16:
      return reduce_as<std::uint16_t, float, HalfFormat<10, 15>>(inputs, op, on_nodes);
    case DataType::bfloat16:
      return reduce_as<std::uint16_t, float, HalfFormat<7, 127>>(inputs, op, on_nodes);
    case DataType::int32:
      return reduce_as<std::int32_t, std::int64_t, Identity<std::int64_t>>(inputs, op, on_nodes);
    case DataType::int64:
      return reduce_as<std::int64_t, std::int64_t, Identity<std::int64_t>>(inputs, op, on_nodes);
    case DataType::uint8:
      return reduce_as<std::uint8_t, std::int64_t, Identity<std::int64_t>>(inputs, op, on_nodes);
  }
  return {};
}

Bytes part_of(const Bytes& whole, int rank, int ranks) {
  const auto bytes = static_cast<std::ptrdiff_t>(whole.size()) / ranks;
  return {whole.begin() + bytes * rank, whole.begin() + bytes * (rank + 1)};
}

}  // namespace ddprun::test
