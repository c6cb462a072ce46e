#include "worker_runtime/ddp/readiness.hpp"

#include <algorithm>

namespace ddprun {

Readiness::Readiness(std::size_t parameters, bool count_first)
    : counts_first_(count_first), slots_(parameters), arrived_(parameters) {}

void Readiness::lay_out(std::span<const std::size_t> buckets, std::size_t bucket_count) {
  bucket_sizes_.assign(bucket_count, 0);
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    slots_[i].bucket = buckets[i];
    ++bucket_sizes_[buckets[i]];
  }
  missing_ = std::vector<std::atomic<std::size_t>>(bucket_count);
}

void Readiness::begin(bool synchronise, bool observe) {
  for (auto& slot : slots_) slot.marks = 0;
  for (std::size_t b = 0; b < missing_.size(); ++b) missing_[b] = bucket_sizes_[b];
  is_counting_ = counts_first_ && synchronise;
  is_observing_ = observe && synchronise && !is_counting_;
  if (is_observing_) arrivals_ = 0;
}

Readiness::Mark Readiness::mark(std::size_t parameter) {
  Slot& slot = slots_[parameter];
  const std::uint32_t marks = ++slot.marks;
  if (counts_first_) {
    slot.has_contributed = true;
    return Mark::early;
  }
  if (marks > slot.expected) return Mark::too_often;
  if (marks < slot.expected) return Mark::early;
  slot.has_contributed = true;
  if (is_observing_) arrived_[arrivals_++] = parameter;
  return Mark::complete;
}

Readiness::Mark Readiness::mark_unused(std::size_t parameter) {
  Slot& slot = slots_[parameter];
  std::uint32_t none = 0;
  const bool is_first = slot.marks.compare_exchange_strong(none, std::max(1U, slot.expected));
  return is_first ? Mark::complete : Mark::too_often;
}

bool Readiness::count_down(std::size_t parameter) {
  return missing_[slots_[parameter].bucket].fetch_sub(1) == 1;
}

void Readiness::end_count() {
  for (auto& slot : slots_) slot.expected = slot.marks;
  counts_first_ = false;
  is_counting_ = false;
}

bool Readiness::is_complete(std::size_t parameter) const {
  const Slot& slot = slots_[parameter];
  return slot.marks >= std::max(1U, slot.expected);
}

void Readiness::forget() {
  for (auto& slot : slots_) slot.has_contributed = false;
}

std::vector<std::size_t> Readiness::observed_order() const {
  const std::size_t arrivals = arrivals_;
  if (arrivals == 0) return {};
  std::vector<std::size_t> order(arrived_.begin(),
                                 arrived_.begin() + static_cast<std::ptrdiff_t>(arrivals));
  std::vector<bool> is_there(slots_.size());
  for (const auto parameter : order) is_there[parameter] = true;
  for (std::size_t i = slots_.size(); i-- > 0;) {
    if (!is_there[i]) order.push_back(i);
  }
  return order;
}

}  // namespace ddprun
