// Conversion between half types and float32, without branches so that loops vectorise. Results do
// not depend on the thread's denormal settings. The parameter Isa gives each translation unit its
// own copy: they are compiled for different instruction sets and must not be merged by the linker.
#pragma once

#include <cstdint>

namespace ddprun::collectives {

template <typename Isa>
struct Half {
  static float float_of(std::uint32_t bits) { return __builtin_bit_cast(float, bits); }
  static std::uint32_t bits_of(float value) { return __builtin_bit_cast(std::uint32_t, value); }

  static float from_bfloat16(std::uint16_t half) {
    return float_of(static_cast<std::uint32_t>(half) << 16);
  }

  /// Rounds to nearest even; NaN stays NaN.
  static std::uint16_t to_bfloat16(float value) {
    const std::uint32_t bits = bits_of(value);
    const std::uint32_t rounded = (bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16;
    const std::uint32_t quiet = (bits >> 16) | 0x40U;
    return static_cast<std::uint16_t>((bits & 0x7fff'ffffU) > 0x7f80'0000U ? quiet : rounded);
  }

  static float from_float16(std::uint16_t half) {
    const std::uint32_t magnitude = half & 0x7fffU;
    const std::uint32_t sign = static_cast<std::uint32_t>(half & 0x8000U) << 16;
    const std::uint32_t rebias = 112U << 23;  // exponent bias 15 to 127
    const std::uint32_t normal = (magnitude << 13) + rebias;
    const std::uint32_t subnormal =
        bits_of(static_cast<float>(static_cast<std::int32_t>(magnitude)) * 0x1p-24F);
    const std::uint32_t finite = magnitude < 0x400U ? subnormal : normal;
    return float_of(sign | (magnitude >= 0x7c00U ? normal + rebias : finite));
  }

  /// Rounds to nearest even; too large values become infinite; NaN stays NaN.
  static std::uint16_t to_float16(float value) {
    const std::uint32_t magnitude = bits_of(value) & 0x7fff'ffffU;
    const std::uint32_t sign = (bits_of(value) >> 16) & 0x8000U;
    const std::uint32_t normal =
        (magnitude + 0xfffU + ((magnitude >> 13) & 1U) - (112U << 23)) >> 13;
    // Adding 0.5, whose unit in the last place is the smallest float16, rounds in the adder.
    const std::uint32_t subnormal = bits_of(float_of(magnitude) + 0.5F) - bits_of(0.5F);
    std::uint32_t result = magnitude < 0x3880'0000U ? subnormal : normal;
    result = magnitude >= 0x477f'f000U ? 0x7c00U : result;
    result = magnitude > 0x7f80'0000U ? 0x7e00U : result;
    return static_cast<std::uint16_t>(sign | result);
  }
};

}  // namespace ddprun::collectives
