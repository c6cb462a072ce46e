// The processor's floating-point settings, which belong to a thread: rounding, and whether denormal
// numbers count as zero. A trainer may change them for its own threads, and a collective is carried
// out by whichever thread is at hand, so the kernels run under settings of their own.
#pragma once

#include <xmmintrin.h>

namespace ddprun::collectives {

/// IEEE 754's settings as long as it lives.
class DefaultFloatEnvironment {
 public:
  DefaultFloatEnvironment() { _mm_setcsr(kDefault); }
  DefaultFloatEnvironment(const DefaultFloatEnvironment&) = delete;
  DefaultFloatEnvironment& operator=(const DefaultFloatEnvironment&) = delete;
  ~DefaultFloatEnvironment() { _mm_setcsr(saved_); }

 private:
  static constexpr unsigned kDefault = 0x1f80;  // nearest even, denormals count, nothing traps
  unsigned saved_ = _mm_getcsr();
};

}  // namespace ddprun::collectives
