// Loops that a compiler turns into vector instructions without being allowed to reorder sums, and
// functions that it can use in them.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace trainer::cpu {

/// So many sums are formed side by side, item i in sum i % kLanes; then they are added up in order.
/// The widest vectors of x86 hold 16 floats.
inline constexpr std::size_t kLanes = 16;

/// combine(... combine(start, term(0)) ..., term(count - 1)), regrouped by lanes.
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

/// The sum of term(i) for i below `count`.
template <typename Real, typename Term>
Real sum(std::size_t count, const Term& term) {
  return fold(
      Real{0}, count, [](Real left, Real right) { return left + right; }, term);
}

/// The largest of `count` values, of which there must be one.
template <typename Real>
Real largest(const Real* values, std::size_t count) {
  return fold(
      values[0], count, [](Real left, Real right) { return left > right ? left : right; },
      [values](std::size_t i) { return values[i]; });
}

/// e^x, to the last bit or the one before it: for double the library's, for float a polynomial
/// within half a binary digit around 0, so that it can be computed for many at once. Below -87 the
/// result is about 1e-38, above 88 about 1e38.
inline double exponential(double x) {
  return std::exp(x);
}

inline float exponential(float x) {
  constexpr float kRounder = 0x1.8p23F;  // adding it leaves no binary places behind the point
  constexpr float kLog2High = 0x1.62e4p-1F;
  constexpr float kLog2Low = 1.4286068e-6F;
  x = x < -87.0F ? -87.0F : x;
  x = x > 88.0F ? 88.0F : x;
  const float shifted = x * 1.44269504F + kRounder;
  const float exponent = shifted - kRounder;
  const float rest = (x - exponent * kLog2High) - exponent * kLog2Low;
  // The Taylor series of e^rest; the next term is below 2^-25 for |rest| < 0.35.
  float power = 1.0F / 5040;
  power = power * rest + 1.0F / 720;
  power = power * rest + 1.0F / 120;
  power = power * rest + 1.0F / 24;
  power = power * rest + 1.0F / 6;
  power = power * rest + 0.5F;
  power = power * rest + 1.0F;
  power = power * rest + 1.0F;
  // The low bits of `shifted` are the exponent as an integer; moved to a float's exponent they
  // multiply by a power of two.
  const std::uint32_t scale = std::bit_cast<std::uint32_t>(shifted) << 23U;
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(power) + scale);
}

/// The hyperbolic tangent, with an absolute error of about the last bit of 1.
template <typename Real>
Real tangent(Real x) {
  return Real{1} - Real{2} / (exponential(2 * x) + Real{1});
}

}  // namespace trainer::cpu
