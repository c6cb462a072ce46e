// Allocator of one rank's arena. The list of free pieces is in the private memory of the owner.
// Thread-safe within the owner's process.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>

namespace ddprun::shared_memory {

class Arena {
 public:
  Arena(std::byte* base, std::size_t bytes);

  /// Returns memory aligned to 64 bytes; nullptr if no free piece is large enough.
  void* allocate(std::size_t bytes);
  /// Like allocate(), but zeroed.
  void* allocate_zeroed(std::size_t bytes);
  void free(void* piece);

  std::size_t bytes() const { return bytes_; }

 private:
  struct Piece {
    std::byte* data = nullptr;
    std::size_t dirty_bytes = 0;  ///< leading bytes that were used before and may not be zero
  };
  Piece take(std::size_t bytes);

  std::byte* base_;
  std::size_t bytes_;
  std::mutex mutex_;
  std::map<std::size_t, std::size_t> free_;  ///< size by offset; adjacent pieces are merged
  std::map<std::size_t, std::size_t> used_;
  std::size_t touched_ = 0;  ///< memory beyond this offset is unused and zero
};

}  // namespace ddprun::shared_memory
