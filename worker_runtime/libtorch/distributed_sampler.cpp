#include <ddprun/torch/distributed_sampler.hpp>

#include <torch/serialize/archive.h>

#include <algorithm>

namespace ddprun::torch {

DistributedSampler::DistributedSampler(std::size_t samples, const ProcessGroup& group,
                                       SamplerOptions options)
    : DistributedSampler(samples, group.size(), group.rank(), options) {}

DistributedSampler::DistributedSampler(std::size_t samples, int world_size, int rank,
                                       SamplerOptions options)
    : state_(std::make_shared<State>(
          State{.world_size = world_size,
                .rank = rank,
                .options = options,
                .sampler = {static_cast<std::int64_t>(samples), world_size, rank, options},
                .indices = {}})) {
  reset({});
}

void DistributedSampler::set_epoch(std::size_t epoch) {
  state_->epoch = epoch;
}

std::size_t DistributedSampler::epoch() const {
  return state_->epoch;
}

std::size_t DistributedSampler::size() const {
  return static_cast<std::size_t>(state_->sampler.size());
}

void DistributedSampler::reset(Size new_size) {
  if (new_size) {
    state_->sampler = {static_cast<std::int64_t>(*new_size), state_->world_size, state_->rank,
                       state_->options};
  }
  state_->indices = state_->sampler.indices(static_cast<std::int64_t>(state_->epoch));
  state_->next = 0;
}

DistributedSampler::Batch DistributedSampler::next(std::size_t batch_size) {
  const std::size_t left = state_->indices.size() - state_->next;
  if (left == 0) return {};
  const auto first = state_->indices.begin() + static_cast<std::ptrdiff_t>(state_->next);
  const auto last = first + static_cast<std::ptrdiff_t>(std::min(batch_size, left));
  state_->next += std::min(batch_size, left);
  return std::vector<std::size_t>(first, last);
}

void DistributedSampler::save(::torch::serialize::OutputArchive& archive) const {
  archive.write("epoch", c10::IValue(static_cast<std::int64_t>(state_->epoch)));
  archive.write("next", c10::IValue(static_cast<std::int64_t>(state_->next)));
}

void DistributedSampler::load(::torch::serialize::InputArchive& archive) {
  c10::IValue epoch;
  c10::IValue next;
  archive.read("epoch", epoch);
  archive.read("next", next);
  state_->epoch = static_cast<std::size_t>(epoch.toInt());
  reset({});
  state_->next = std::min(static_cast<std::size_t>(next.toInt()), state_->indices.size());
}

}  // namespace ddprun::torch
