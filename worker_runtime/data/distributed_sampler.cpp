#include <ddprun/distributed_sampler.hpp>
#include <ddprun/error.hpp>

#include <numeric>
#include <random>
#include <string>
#include <utility>

namespace ddprun {

namespace {

/// PyTorch adds the two as unbounded integers, rejects sums outside -2^63 .. 2^64-1, and uses the
/// two's complement of negative sums. Epochs are not negative in practice, so only the upper limit
/// can be exceeded.
std::uint64_t mix(std::uint64_t seed, std::int64_t epoch) {
  const auto sum = seed + static_cast<std::uint64_t>(epoch);
  if (epoch > 0 && sum < seed) {
    throw Error(Errc::usage, "seed " + std::to_string(seed) + " plus epoch " +
                                 std::to_string(epoch) + " is beyond 64 bits");
  }
  return sum;
}

}  // namespace

std::vector<std::int64_t> random_permutation(std::int64_t n, std::uint64_t seed) {
  if (n < 0 || n >= kPermutationMax) {
    throw Error(Errc::usage, "a permutation of " + std::to_string(n) + " elements: must be 0 to " +
                                 std::to_string(kPermutationMax - 1));
  }
  std::vector<std::int64_t> order(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  // A forward Fisher-Yates shuffle with one 32-bit draw for each position but the last. Like
  // PyTorch, it uses a slightly biased modulo and the lower half of the seed.
  std::mt19937 draw(static_cast<std::uint32_t>(seed));
  for (std::size_t i = 0; i + 1 < order.size(); ++i) {
    std::swap(order[i], order[i + draw() % (order.size() - i)]);
  }
  return order;
}

DistributedSampler::DistributedSampler(std::int64_t samples, int world_size, int rank,
                                       SamplerOptions options)
    : samples_(samples), world_size_(world_size), rank_(rank), options_(options) {
  if (world_size < 1) {
    throw Error(Errc::usage,
                "sampler: " + std::to_string(world_size) + " workers: must be at least 1");
  }
  if (rank < 0 || rank >= world_size) {
    throw Error(Errc::usage, "sampler: rank " + std::to_string(rank) + " of " +
                                 std::to_string(world_size) + " workers: must be 0 to " +
                                 std::to_string(world_size - 1));
  }
  if (samples < 0 || samples >= kPermutationMax) {
    throw Error(Errc::usage, "sampler: " + std::to_string(samples) + " samples: must be 0 to " +
                                 std::to_string(kPermutationMax - 1));
  }
}

std::int64_t DistributedSampler::size() const {
  const bool round_up = !options_.drop_last && samples_ % world_size_ != 0;
  return samples_ / world_size_ + (round_up ? 1 : 0);
}

std::vector<std::int64_t> DistributedSampler::indices(std::int64_t epoch) const {
  return every(world_size_, rank_, size(), epoch);
}

std::vector<std::int64_t> DistributedSampler::global_order(std::int64_t epoch) const {
  return every(1, 0, size() * world_size_, epoch);
}

std::vector<std::int64_t> DistributedSampler::every(std::int64_t stride, std::int64_t first,
                                                    std::int64_t count, std::int64_t epoch) const {
  std::vector<std::int64_t> order;
  if (options_.shuffle) order = random_permutation(samples_, mix(options_.seed, epoch));
  std::vector<std::int64_t> chosen(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) {
    // Padding repeats the order from its start, which equals wrapping around.
    const std::int64_t position = (first + i * stride) % samples_;
    chosen[static_cast<std::size_t>(i)] =
        options_.shuffle ? order[static_cast<std::size_t>(position)] : position;
  }
  return chosen;
}

}  // namespace ddprun
