// Samples of a worker in an epoch, equal to those of PyTorch's torch.utils.data.DistributedSampler
// with the same arguments. Pure functions; any thread may call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ddprun {

/// Returns a permutation of 0..n-1, equal to torch.randperm(n) after torch.manual_seed(seed) on the
/// CPU, for n below kPermutationMax. As in PyTorch, only the lower 32 bits of the seed are used.
/// Throws Error{Errc::usage} if n is out of range.
std::vector<std::int64_t> random_permutation(std::int64_t n, std::uint64_t seed);

/// From this size on PyTorch's order differs between versions; larger data sets are rejected.
inline constexpr std::int64_t kPermutationMax = 0xffff'ffff / 20;

/// Arguments of PyTorch's DistributedSampler.
struct SamplerOptions {
  bool shuffle = true;     ///< a new order in each epoch; otherwise 0, 1, 2, ...
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

  /// Returns this rank's indices in `epoch`, which is added to the seed: seed 0 in epoch 5 equals
  /// seed 5 in epoch 0. Throws Error{Errc::usage} if the sum exceeds 64 bits.
  std::vector<std::int64_t> indices(std::int64_t epoch) const;

  /// Returns the order over all ranks, padded or cut to size() * world_size; rank r has elements r,
  /// r + world_size, ...
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
