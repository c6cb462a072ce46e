// A thread's floating-point settings: rounding, and flushing of denormals. A trainer may change
// them in its threads, and any thread may run a collective, so kernels set their own.
#pragma once

#include "rendezvous/base/processor.hpp"

namespace ddprun::collectives {

/// Sets the defaults of IEEE 754 during its lifetime.
class DefaultFloatEnvironment {
 public:
  DefaultFloatEnvironment() { set_float_settings(kDefaultFloatSettings); }
  DefaultFloatEnvironment(const DefaultFloatEnvironment&) = delete;
  DefaultFloatEnvironment& operator=(const DefaultFloatEnvironment&) = delete;
  ~DefaultFloatEnvironment() { set_float_settings(saved_); }

 private:
  FloatSettings saved_ = float_settings();
};

}  // namespace ddprun::collectives
