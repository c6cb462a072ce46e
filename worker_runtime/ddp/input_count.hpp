// Agreement of the ranks, before every step, on which of them have input. One thread at a time.
#pragma once

#include <ddprun/gradient_reducer.hpp>

#include <cstdint>
#include <span>

namespace ddprun {

/// The ranks that take part in a step.
struct StepPartners {
  int active = 0;  ///< number of ranks with input
  int first = 0;   ///< lowest rank with input
  int last = 0;    ///< highest rank with input
  bool synchronise = false;
};

class InputCount {
 public:
  explicit InputCount(UnevenInputs policy) : policy_(policy) {}

  /// Blocks until all ranks have called it; without UnevenInputs, returns immediately with all
  /// ranks. Throws Error{Errc::usage} if participating ranks differ in `synchronise`, and with
  /// throw_early if only some ranks participate.
  StepPartners announce(ProcessGroup& group, bool takes_part, bool synchronise) const;

  /// Returns the divisor of averages.
  int divisor(const StepPartners& partners, int ranks) const {
    return policy_ == UnevenInputs::average_over_active ? partners.active : ranks;
  }

 private:
  UnevenInputs policy_;
};

}  // namespace ddprun
