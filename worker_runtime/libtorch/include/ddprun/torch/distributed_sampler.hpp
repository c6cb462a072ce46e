// ddprun's DistributedSampler for LibTorch's data loaders: the order is that of Python's
// torch.utils.data.DistributedSampler, which LibTorch's own distributed samplers do not have. One
// thread at a time.
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

/// A handle: a data loader keeps a copy, and set_epoch() of any copy counts for all.
class DistributedSampler : public ::torch::data::samplers::Sampler<> {
  using Base = ::torch::data::samplers::Sampler<>;
  using Batch = decltype(std::declval<Base&>().next(0));
  /// LibTorch's own optional in old versions, the standard library's in new ones.
  using Size = decltype(std::declval<::torch::data::samplers::Sampler<std::size_t>&>().next(0));

 public:
  /// Throws Error{Errc::usage} for more samples than kPermutationMax.
  DistributedSampler(std::size_t samples, const ProcessGroup& group, SamplerOptions options = {});
  /// The same for a rank that is known otherwise.
  DistributedSampler(std::size_t samples, int world_size, int rank, SamplerOptions options = {});

  /// What the next reset(), which the begin() of a data loader calls, makes the order for. Without
  /// it all epochs have the same order.
  void set_epoch(std::size_t epoch);
  /// What set_epoch() was told last; 0 at first.
  std::size_t epoch() const;

  /// Samples of this rank in an epoch.
  std::size_t size() const;

  /// Begins an epoch. Throws Error{Errc::usage} for a new size other than size().
  void reset(Size new_size = {}) override;
  /// The next indices, at most `batch_size`; nothing at the end of the epoch.
  Batch next(std::size_t batch_size) override;
  /// Writes epoch and position to `archive`.
  void save(::torch::serialize::OutputArchive& archive) const override;
  /// Goes on where save() was called, with this rank's own samples.
  void load(::torch::serialize::InputArchive& archive) override;

 private:
  struct State {
    int world_size;
    int rank;
    SamplerOptions options;
    ddprun::DistributedSampler sampler;
    std::size_t epoch = 0;
    std::vector<std::int64_t> indices;
    std::size_t next = 0;  ///< of indices
  };
  std::shared_ptr<State> state_;  // copies are handles of the same sampler
};

}  // namespace ddprun::torch
