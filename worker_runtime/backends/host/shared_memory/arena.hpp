// Hands out pieces of one rank's arena. Which pieces are free is known to the owner alone and lies
// in its private memory. Any thread of the owner may call.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>

namespace ddprun::shared_memory {

class Arena {
 public:
  Arena(std::byte* base, std::size_t bytes);

  /// Aligned to 64 bytes; nullptr if no free piece is large enough.
  void* allocate(std::size_t bytes);
  /// As allocate(), and zero throughout.
  void* allocate_zeroed(std::size_t bytes);
  void free(void* piece);

  std::size_t bytes() const { return bytes_; }

 private:
  struct Piece {
    std::byte* data = nullptr;
    std::size_t dirty_bytes = 0;  ///< from the start: was in use before, so may not be zero
  };
  Piece take(std::size_t bytes);

  std::byte* base_;
  std::size_t bytes_;
  std::mutex mutex_;
  std::map<std::size_t, std::size_t> free_;  ///< offset to bytes; neighbours are joined
  std::map<std::size_t, std::size_t> used_;
  std::size_t touched_ = 0;  ///< beyond, the memory has never been used and is zero
};

}  // namespace ddprun::shared_memory
