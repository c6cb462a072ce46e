#include "trainers/trainer/batches.hpp"

#include <algorithm>

namespace trainer {

EpochBatches::EpochBatches(const BatchOptions& options, std::int64_t epoch)
    : options_(options),
      global_batch_(options.global_batch > 0
                        ? options.global_batch
                        : options.batch_size * options.gradient_accumulation * options.world_size) {
  const ddprun::ElasticSamplerOptions order = {
      .samples = options.samples, .global_batch = global_batch_, .seed = options.seed};
  const auto sampler = ddprun::ElasticSampler::resumed({.epoch = epoch, .options = order},
                                                       options.world_size, options.rank);
  step_begins_.push_back(0);
  for (std::int64_t step = 0; step < steps(); ++step) {
    const auto own = sampler.samples_ahead(step);
    indices_.insert(indices_.end(), own.begin(), own.end());
    step_begins_.push_back(indices_.size());
  }
}

std::int64_t EpochBatches::steps() const {
  return (options_.samples + global_batch_ - 1) / global_batch_;
}

std::int64_t EpochBatches::global_samples(std::int64_t step) const {
  return std::min(global_batch_, options_.samples - step * global_batch_);
}

std::int64_t EpochBatches::passes() const {
  if (options_.global_batch == 0) return options_.gradient_accumulation;
  const std::int64_t share = (global_batch_ + options_.world_size - 1) / options_.world_size;
  return (share + options_.batch_size - 1) / options_.batch_size;
}

std::span<const std::int64_t> EpochBatches::micro_batch(std::int64_t step,
                                                        std::int64_t pass) const {
  const auto own = step_samples(step);
  const auto size = static_cast<std::size_t>(options_.batch_size);
  const std::size_t first = std::min(static_cast<std::size_t>(pass) * size, own.size());
  return own.subspan(first, std::min(size, own.size() - first));
}

std::span<const std::int64_t> EpochBatches::step_samples(std::int64_t step) const {
  const auto index = static_cast<std::size_t>(step);
  return std::span(indices_).subspan(step_begins_[index],
                                     step_begins_[index + 1] - step_begins_[index]);
}

}  // namespace trainer
