// A thread's floating-point settings: rounding, and flushing of denormals. A trainer may change
// them in its threads, and any thread may run a collective, so kernels set their own.
#pragma once

#include <xmmintrin.h>

namespace ddprun::collectives {

/// Sets the defaults of IEEE 754 during its lifetime.
class DefaultFloatEnvironment {
 public:
  DefaultFloatEnvironment() { _mm_setcsr(kDefault); }
  DefaultFloatEnvironment(const DefaultFloatEnvironment&) = delete;
  DefaultFloatEnvironment& operator=(const DefaultFloatEnvironment&) = delete;
  ~DefaultFloatEnvironment() { _mm_setcsr(saved_); }

 private:
  // round to nearest even, denormals enabled, no traps
  static constexpr unsigned kDefault = 0x1f80;
  unsigned saved_ = _mm_getcsr();
};

}  // namespace ddprun::collectives
