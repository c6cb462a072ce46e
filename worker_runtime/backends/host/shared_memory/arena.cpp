#include "worker_runtime/backends/host/shared_memory/arena.hpp"

#include <algorithm>
#include <cstring>
#include <iterator>

namespace ddprun::shared_memory {

namespace {

constexpr std::size_t kAlignment = 64;

}  // namespace

Arena::Arena(std::byte* base, std::size_t bytes) : base_(base), bytes_(bytes) {
  free_.emplace(0, bytes);
}

void* Arena::allocate(std::size_t bytes) {
  return take(bytes).data;
}

void* Arena::allocate_zeroed(std::size_t bytes) {
  const Piece piece = take(bytes);
  if (piece.dirty_bytes > 0) std::memset(piece.data, 0, piece.dirty_bytes);
  return piece.data;
}

Arena::Piece Arena::take(std::size_t bytes) {
  if (bytes > bytes_) return {};
  bytes = std::max((bytes + kAlignment - 1) / kAlignment * kAlignment, kAlignment);
  const std::lock_guard lock(mutex_);
  const auto fit = std::find_if(free_.begin(), free_.end(),
                                [&](const auto& piece) { return piece.second >= bytes; });
  if (fit == free_.end()) return {};
  const auto [offset, free_bytes] = *fit;
  free_.erase(fit);
  if (free_bytes > bytes) free_.emplace(offset + bytes, free_bytes - bytes);
  used_.emplace(offset, bytes);
  const std::size_t dirty = offset < touched_ ? std::min(bytes, touched_ - offset) : 0;
  touched_ = std::max(touched_, offset + bytes);
  return {base_ + offset, dirty};
}

void Arena::free(void* piece) {
  const auto offset = static_cast<std::size_t>(static_cast<std::byte*>(piece) - base_);
  const std::lock_guard lock(mutex_);
  const auto used = used_.extract(offset);
  auto here = free_.emplace(offset, used.mapped()).first;
  const auto next = std::next(here);
  if (next != free_.end() && here->first + here->second == next->first) {
    here->second += next->second;
    free_.erase(next);
  }
  if (here == free_.begin()) return;
  const auto previous = std::prev(here);
  if (previous->first + previous->second == here->first) {
    previous->second += here->second;
    free_.erase(here);
  }
}

}  // namespace ddprun::shared_memory
