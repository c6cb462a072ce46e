// System calls for futexes that are shared between processes.
#pragma once

#include <ddprun/deadline.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <linux/futex.h>

namespace ddprun {

void futex_wake_all(const void* word) noexcept;

/// Up to kWordsMax words with expected values.
class FutexSet {
 public:
  static constexpr std::size_t kWordsMax = 128;  ///< FUTEX_WAITV_MAX

  void add(const void* word, std::uint32_t expected);
  bool is_full() const { return count_ == kWordsMax; }

  /// Blocks until a word is woken or the deadline passes; returns immediately if a word differs
  /// from its expected value. May wake spuriously.
  void sleep(Deadline deadline) const;

 private:
  std::array<futex_waitv, kWordsMax> words_;
  unsigned count_ = 0;
};

}  // namespace ddprun
