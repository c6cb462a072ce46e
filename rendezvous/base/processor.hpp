// What differs between the processors that ddprun is built for.
#pragma once

#include <cstdint>
#if defined(__x86_64__)
#include <xmmintrin.h>
#elif !defined(__aarch64__)
#error "this processor is not supported"
#endif

namespace ddprun {

enum class Processor { x86_64, aarch64 };

/// Floating-point settings of a thread, as bits of the processor's control register.
using FloatSettings = std::uint64_t;

#if defined(__x86_64__)

inline constexpr Processor kProcessor = Processor::x86_64;
/// Defaults of IEEE 754: round to nearest even, denormals enabled, no traps.
inline constexpr FloatSettings kDefaultFloatSettings = 0x1f80;
/// Denormal inputs and results become 0.
inline constexpr FloatSettings kFlushDenormals = 0x8040;

inline FloatSettings float_settings() {
  return _mm_getcsr();
}

inline void set_float_settings(FloatSettings settings) {
  _mm_setcsr(static_cast<unsigned>(settings));
}

/// Passes some tens of cycles, which another thread of the core may use.
inline void pause_core() {
  _mm_pause();
}

#else

inline constexpr Processor kProcessor = Processor::aarch64;
inline constexpr FloatSettings kDefaultFloatSettings = 0;
inline constexpr FloatSettings kFlushDenormals = 1U << 24U;  // FZ

inline FloatSettings float_settings() {
  FloatSettings settings = 0;
  asm volatile("mrs %0, fpcr" : "=r"(settings));
  return settings;
}

inline void set_float_settings(FloatSettings settings) {
  asm volatile("msr fpcr, %0" ::"r"(settings) : "memory");
}

inline void pause_core() {
  asm volatile("isb" ::: "memory");  // most processors ignore `yield`
}

#endif

}  // namespace ddprun
