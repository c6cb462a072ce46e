// Which gradients of a step are complete. mark(), mark_unused() and count_down() may be called by
// any thread while a step is under way, the rest by the reducer's.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace ddprun {

class Readiness {
 public:
  enum class Mark {
    early,      ///< more is to come, or nobody knows yet
    complete,   ///< the gradient is complete
    too_often,  ///< it was complete before
  };

  /// With `count_first` the first step that is counted, rather than the number one, says how often
  /// each gradient is ready in a step.
  Readiness(std::size_t parameters, bool count_first);

  /// Between steps. The bucket of each parameter.
  void lay_out(std::span<const std::size_t> buckets, std::size_t bucket_count);

  /// A step that is not synchronised counts nothing; `observe` keeps the order.
  void begin(bool synchronise, bool observe);

  Mark mark(std::size_t parameter);

  /// There is no gradient in this step: complete, unless something was marked before.
  Mark mark_unused(std::size_t parameter);

  /// One gradient of this parameter's bucket less to wait for; true if it was the last one.
  bool count_down(std::size_t parameter);

  /// In the step that finds out how often each gradient is ready.
  bool is_counting() const { return is_counting_; }
  /// That step has been, or is not needed.
  bool knows_counts() const { return !counts_first_; }
  /// Ends that step: what was marked so far is the number from now on, and complete.
  void end_count();

  bool is_complete(std::size_t parameter) const;
  bool is_marked(std::size_t parameter) const { return slots_[parameter].marks > 0; }
  /// Found by counting: this rank never uses it.
  bool is_never_ready(std::size_t parameter) const { return slots_[parameter].expected == 0; }
  std::uint32_t expected(std::size_t parameter) const { return slots_[parameter].expected; }

  /// Ready in this step or in one without synchronisation since the last forget().
  bool has_contributed(std::size_t parameter) const { return slots_[parameter].has_contributed; }
  void forget();
  void forget(std::size_t parameter) { slots_[parameter].has_contributed = false; }

  /// The order in which gradients were complete in the last step that was observed, the others
  /// last; empty if none was.
  std::vector<std::size_t> observed_order() const;

 private:
  struct Slot {
    std::size_t bucket = 0;
    std::uint32_t expected = 1;
    std::atomic<std::uint32_t> marks = 0;
    std::atomic<bool> has_contributed = false;
  };

  bool counts_first_;
  bool is_counting_ = false;
  bool is_observing_ = false;
  std::vector<Slot> slots_;
  std::vector<std::atomic<std::size_t>> missing_;  ///< gradients, by bucket
  std::vector<std::size_t> bucket_sizes_;
  std::vector<std::size_t> arrived_;  ///< the first arrivals_, each written by one thread
  std::atomic<std::size_t> arrivals_ = 0;
};

}  // namespace ddprun
