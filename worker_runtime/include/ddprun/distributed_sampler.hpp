// Which samples a worker sees in an epoch, index for index as PyTorch's
// torch.utils.data.DistributedSampler with the same arguments. Pure functions of their arguments;
// any thread may call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ddprun {

/// A permutation of 0..n-1, equal to torch.randperm(n) after torch.manual_seed(seed) on the CPU,
/// for n below kPermutationMax. Only the lower 32 bits of the seed count, as there. Throws
/// Error{Errc::usage} for an n out of range.
std::vector<std::int64_t> random_permutation(std::int64_t n, std::uint64_t seed);

/// Above this size PyTorch draws differently between versions: larger data sets are refused.
inline constexpr std::int64_t kPermutationMax = 0xffff'ffff / 20;

/// Arguments of PyTorch's DistributedSampler.
struct SamplerOptions {
  bool shuffle = true;     ///< a new order in each epoch; else 0, 1, 2, ...
  std::uint64_t seed = 0;  ///< the same on every rank
  bool drop_last =
      false;  ///< drop the tail rather than repeat samples from the front to make it even
};

/// The samples of one rank.
class DistributedSampler {
 public:
  /// Throws Error{Errc::usage} if `rank` is not within 0..world_size-1 or `samples` is negative or
  /// too large.
  DistributedSampler(std::int64_t samples, int world_size, int rank, SamplerOptions options = {});

  /// Samples per rank and epoch.
  std::int64_t size() const;

  /// This rank's indices in `epoch`, which is added to the seed: seed 0 in epoch 5 is seed 5 in
  /// epoch 0. Throws Error{Errc::usage} if the sum is beyond 64 bits.
  std::vector<std::int64_t> indices(std::int64_t epoch) const;

  /// The order over all ranks, padded or cut to size() * world_size; rank r has every world_size-th
  /// from r on.
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
