// Tracks which gradients of a step are complete. Any thread may call mark(), mark_unused() and
// count_down() during a step; the reducer's thread calls the rest.
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
    early,      ///< incomplete, or the expected count is unknown
    complete,   ///< the gradient is complete
    too_often,  ///< the gradient was already complete
  };

  /// `count_first`: the first counted step determines how many times each gradient becomes ready in
  /// a step; otherwise it is once.
  Readiness(std::size_t parameters, bool count_first);

  /// Must be called between steps. `buckets`: bucket index of each parameter.
  void lay_out(std::span<const std::size_t> buckets, std::size_t bucket_count);

  /// Begins a step. Without `synchronise`, it does not count. `observe`: records the order.
  void begin(bool synchronise, bool observe);

  Mark mark(std::size_t parameter);

  /// Marks the gradient as absent in this step: complete unless it was marked before.
  Mark mark_unused(std::size_t parameter);

  /// Decrements the number of gradients that the parameter's bucket waits for; returns true at
  /// zero.
  bool count_down(std::size_t parameter);

  /// Returns true during the step that determines these counts.
  bool is_counting() const { return is_counting_; }
  /// Returns true if the counts are known or not needed.
  bool knows_counts() const { return !counts_first_; }
  /// Ends that step: the marks so far become the expected counts, and all gradients are complete.
  void end_count();

  bool is_complete(std::size_t parameter) const;
  bool is_marked(std::size_t parameter) const { return slots_[parameter].marks > 0; }
  /// Returns true if counting has found that this rank never uses the parameter.
  bool is_never_ready(std::size_t parameter) const { return slots_[parameter].expected == 0; }
  std::uint32_t expected(std::size_t parameter) const { return slots_[parameter].expected; }

  /// Returns true if it was ready in this step or in an unsynchronised step since the last
  /// forget().
  bool has_contributed(std::size_t parameter) const { return slots_[parameter].has_contributed; }
  void forget();
  void forget(std::size_t parameter) { slots_[parameter].has_contributed = false; }

  /// Returns the order in which gradients became complete in the last observed step, the others
  /// last; empty if no step was observed.
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
  std::vector<std::atomic<std::size_t>> missing_;  ///< number of incomplete gradients by bucket
  std::vector<std::size_t> bucket_sizes_;
  /// parameters in order of arrival; the first arrivals_ entries are valid, each written by one
  /// thread
  std::vector<std::size_t> arrived_;
  std::atomic<std::size_t> arrivals_ = 0;
};

}  // namespace ddprun
