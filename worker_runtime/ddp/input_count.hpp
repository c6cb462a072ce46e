// Who still has input: before every step each rank says whether it takes part. One thread at a
// time.
#pragma once

#include <ddprun/gradient_reducer.hpp>

#include <cstdint>
#include <span>

namespace ddprun {

/// The ranks that take part in a step.
struct StepPartners {
  int active = 0;  ///< how many have input
  int first = 0;   ///< the lowest of them
  int last = 0;    ///< the highest of them
  bool synchronise = false;
};

class InputCount {
 public:
  explicit InputCount(UnevenInputs policy) : policy_(policy) {}

  /// Blocks until all ranks have called it; without UnevenInputs nobody is asked and all take part.
  /// Throws Error{Errc::usage} if those who take part want different things, and with throw_early
  /// if only some take part.
  StepPartners announce(ProcessGroup& group, bool takes_part, bool synchronise) const;

  /// By how many ranks an average divides.
  int divisor(const StepPartners& partners, int ranks) const {
    return policy_ == UnevenInputs::average_over_active ? partners.active : ranks;
  }

 private:
  UnevenInputs policy_;
};

}  // namespace ddprun
