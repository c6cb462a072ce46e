// System calls for futexes that are shared between processes.
#pragma once

#include "worker_runtime/backends/host/shared_memory/layout.hpp"
#include <ddprun/deadline.hpp>

#include <array>
#include <linux/futex.h>

namespace ddprun::shared_memory {

void futex_wake_all(const void* word) noexcept;

/// Up to 128 words with expected values; sleep() returns immediately if one of them differs.
class FutexSet {
 public:
  void add(const void* word, std::uint32_t expected);

  /// Blocks until a word is woken or the deadline passes. May wake spuriously.
  void sleep(Deadline deadline) const;

  static constexpr std::size_t kWordsMax = 128;  // FUTEX_WAITV_MAX

 private:
  std::array<futex_waitv, kWordsMax> words_;
  unsigned count_ = 0;
};

}  // namespace ddprun::shared_memory
