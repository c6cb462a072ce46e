// Loops that compilers vectorise without reordering sums, and functions for use in them.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace trainer::cpu {

/// Number of partial sums: item i is added to sum i % kLanes, then the sums are added in order. The
/// widest x86 vectors have 16 floats.
inline constexpr std::size_t kLanes = 16;

/// Returns combine(... combine(start, term(0)) ..., term(count - 1)), regrouped by lanes.
template <typename Value, typename Combine, typename Term>
Value fold(Value start, std::size_t count, const Combine& combine, const Term& term) {
  Value lanes[kLanes];
  std::fill(lanes, lanes + kLanes, start);
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      lanes[lane] = combine(lanes[lane], term(i + lane));
    }
  }
  for (std::size_t lane = 0; i < count; ++i, ++lane) lanes[lane] = combine(lanes[lane], term(i));
  Value result = lanes[0];
  for (std::size_t lane = 1; lane < kLanes; ++lane) result = combine(result, lanes[lane]);
  return result;
}

/// Returns the sum of term(i) for i below `count`.
template <typename Real, typename Term>
Real sum(std::size_t count, const Term& term) {
  return fold(
      Real{0}, count, [](Real left, Real right) { return left + right; }, term);
}

/// Returns the maximum of `count` values, at least one.
template <typename Real>
Real largest(const Real* values, std::size_t count) {
  return fold(
      values[0], count, [](Real left, Real right) { return left > right ? left : right; },
      [values](std::size_t i) { return values[i]; });
}

/// Returns e^x within one unit in the last place. Uses the library for double, and argument
/// reduction and a polynomial, which vectorises, for float. The result is about 1e-38 below -87 and
/// about 1e38 above 88.
inline double exponential(double x) {
  return std::exp(x);
}

inline float exponential(float x) {
  constexpr float kRounder = 0x1.8p23F;  // adding it rounds to an integer
  constexpr float kLog2High = 0x1.62e4p-1F;
  constexpr float kLog2Low = 1.4286068e-6F;
  x = x < -87.0F ? -87.0F : x;
  x = x > 88.0F ? 88.0F : x;
  const float shifted = x * 1.44269504F + kRounder;
  const float exponent = shifted - kRounder;
  const float rest = (x - exponent * kLog2High) - exponent * kLog2Low;
  // Taylor series of e^rest; the next term is below 2^-25 for |rest| < 0.35.
  float power = 1.0F / 5040;
  power = power * rest + 1.0F / 720;
  power = power * rest + 1.0F / 120;
  power = power * rest + 1.0F / 24;
  power = power * rest + 1.0F / 6;
  power = power * rest + 0.5F;
  power = power * rest + 1.0F;
  power = power * rest + 1.0F;
  // The low bits of `shifted` are the exponent as an integer; shifted to a float's exponent field
  // they multiply by a power of two.
  const std::uint32_t scale = std::bit_cast<std::uint32_t>(shifted) << 23U;
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(power) + scale);
}

/// Returns the hyperbolic tangent with an absolute error of about one unit in the last place of 1.
template <typename Real>
Real tangent(Real x) {
  return Real{1} - Real{2} / (exponential(2 * x) + Real{1});
}

}  // namespace trainer::cpu
