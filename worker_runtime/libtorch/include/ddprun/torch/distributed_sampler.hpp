// ddprun's DistributedSampler for LibTorch's data loaders. Unlike LibTorch's distributed
// samplers, it has the order of Python's torch.utils.data.DistributedSampler. One thread at a
// time.
#pragma once

#include <ddprun/distributed_sampler.hpp>
#include <ddprun/process_group.hpp>

#include <torch/data/samplers/base.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace ddprun::torch {

/// Handle of a sampler. Data loaders copy it; set_epoch() of any copy applies to all copies.
class DistributedSampler : public ::torch::data::samplers::Sampler<> {
  using Base = ::torch::data::samplers::Sampler<>;
  using Batch = decltype(std::declval<Base&>().next(0));
  /// Optional size: LibTorch's optional type in old versions, std::optional in new ones.
  using Size = decltype(std::declval<::torch::data::samplers::Sampler<std::size_t>&>().next(0));

 public:
  /// Throws Error{Errc::usage} for more samples than kPermutationMax.
  DistributedSampler(std::size_t samples, const ProcessGroup& group, SamplerOptions options = {});
  /// Takes the rank and world size explicitly.
  DistributedSampler(std::size_t samples, int world_size, int rank, SamplerOptions options = {});

  /// Sets the epoch for the order that the next reset() creates; begin() of a data loader calls
  /// reset(). If it is never called, all epochs have the same order.
  void set_epoch(std::size_t epoch);
  /// Returns the epoch of the last set_epoch(); 0 initially.
  std::size_t epoch() const;

  /// Returns the number of this rank's samples in an epoch.
  std::size_t size() const;

  /// Begins an epoch. Throws Error{Errc::usage} if `new_size` differs from size().
  void reset(Size new_size = {}) override;
  /// Returns the next indices, at most `batch_size`, or nothing at the end of the epoch.
  Batch next(std::size_t batch_size) override;
  /// Writes epoch and position to `archive`.
  void save(::torch::serialize::OutputArchive& archive) const override;
  /// Restores epoch and position written by save(), with this rank's own samples.
  void load(::torch::serialize::InputArchive& archive) override;

 private:
  struct State {
    int world_size;
    int rank;
    SamplerOptions options;
    ddprun::DistributedSampler sampler;
    std::size_t epoch = 0;
    std::vector<std::int64_t> indices;
    std::size_t next = 0;  ///< next position in indices
  };
  std::shared_ptr<State> state_;  // copies are handles of the same sampler
};

}  // namespace ddprun::torch
