// Samples of a worker in an epoch, equal to the samples of torch.utils.data.DistributedSampler with
// the same arguments. Pure functions; thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ddprun {

/// Returns a permutation of 0..n-1, equal to torch.randperm(n) after torch.manual_seed(seed) on the
/// CPU, for n below kPermutationMax. As in PyTorch, only the lower 32 bits of the seed are used.
/// Throws Error{Errc::usage} if n is out of range.
std::vector<std::int64_t> random_permutation(std::int64_t n, std::uint64_t seed);

/// Limit of the data set size. PyTorch's order differs between versions from this size on.
inline constexpr std::int64_t kPermutationMax = 0xffff'ffff / 20;

/// Arguments of PyTorch's DistributedSampler.
struct SamplerOptions {
  bool shuffle = true;     ///< use a new order in each epoch; false: 0, 1, 2, ...
  std::uint64_t seed = 0;  ///< equal on all ranks
  bool drop_last = false;  ///< drop the remainder instead of repeating samples from the front
};

/// The samples of one rank.
class DistributedSampler {
 public:
  /// Throws Error{Errc::usage} if `rank` is not within 0..world_size-1 or `samples` is negative or
  /// too large.
  DistributedSampler(std::int64_t samples, int world_size, int rank, SamplerOptions options = {});

  /// Returns the number of samples per rank and epoch.
  std::int64_t size() const;

  /// Returns this rank's indices in `epoch`. The seed and `epoch` are added, so seed 0 in epoch 5
  /// equals seed 5 in epoch 0. Throws Error{Errc::usage} if the sum exceeds 64 bits.
  std::vector<std::int64_t> indices(std::int64_t epoch) const;

  /// Returns the order over all ranks, padded or truncated to size() * world_size. Rank r uses
  /// elements r, r + world_size, ...
  std::vector<std::int64_t> global_order(std::int64_t epoch) const;

 private:
  std::vector<std::int64_t> every(std::int64_t stride, std::int64_t first, std::int64_t count,
                                  std::int64_t epoch) const;

  std::int64_t samples_;
  int world_size_;
  int rank_;
  SamplerOptions options_;
};

}  // namespace ddprun
