#include "tests/bench/collective_bench/probe.hpp"

namespace ddprun::bench {

namespace {

void add_two(float* __restrict a, float* __restrict b, std::size_t elements) {
  for (std::size_t i = 0; i < elements; ++i) {
    const float sum = a[i] + b[i];
    a[i] = sum;
    b[i] = sum;
  }
}

/// In pieces that stay in a cache, so that each stream is read and written once.
void add_all(std::vector<std::vector<float>>& streams) {
  constexpr std::size_t kPiece = 2048;
  const std::size_t elements = streams[0].size();
  for (std::size_t first = 0; first < elements; first += kPiece) {
    const std::size_t last = first + kPiece < elements ? first + kPiece : elements;
    float* const total = streams[0].data();
    for (std::size_t stream = 1; stream < streams.size(); ++stream) {
      const float* const other = streams[stream].data();
      for (std::size_t i = first; i < last; ++i) total[i] += other[i];
    }
    for (std::size_t stream = 1; stream < streams.size(); ++stream) {
      float* const other = streams[stream].data();
      for (std::size_t i = first; i < last; ++i) other[i] = total[i];
    }
  }
}

}  // namespace

Probe::Probe(std::size_t bytes, int ranks)
    : streams_(static_cast<std::size_t>(ranks),
               std::vector<float>(bytes / sizeof(float) / static_cast<std::size_t>(ranks))) {}

void Probe::call() {
  if (streams_.size() == 2) {
    add_two(streams_[0].data(), streams_[1].data(), streams_[0].size());
  } else {
    add_all(streams_);
  }
}

}  // namespace ddprun::bench
