#include "worker_runtime/collectives/stream_copy.hpp"

#include <emmintrin.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace ddprun::collectives {

namespace {

constexpr std::size_t kLine = 64;

void stream_line(std::byte* to, const std::byte* from) {
  const auto load = [from](int i) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from) + i);
  };
  const __m128i parts[] = {load(0), load(1), load(2), load(3)};
  for (int i = 0; i < 4; ++i) _mm_stream_si128(reinterpret_cast<__m128i*>(to) + i, parts[i]);
}

}  // namespace

void stream_copy(std::byte* to, const std::byte* from, std::size_t bytes) {
  const std::size_t ahead = (kLine - reinterpret_cast<std::uintptr_t>(to) % kLine) % kLine;
  const std::size_t head = std::min(bytes, ahead);
  std::memcpy(to, from, head);
  std::size_t done = head;
  for (; done + kLine <= bytes; done += kLine) stream_line(to + done, from + done);
  std::memcpy(to + done, from + done, bytes - done);
  // Non-temporal stores are not ordered by the atomic store that publishes them.
  _mm_sfence();
}

}  // namespace ddprun::collectives
