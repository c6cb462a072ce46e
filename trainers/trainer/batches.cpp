#include "trainers/trainer/batches.hpp"

#include <algorithm>

namespace trainer {

EpochBatches::EpochBatches(const BatchOptions& options, std::int64_t epoch)
    : options_(options),
      global_batch_(options.batch_size * options.gradient_accumulation * options.world_size) {
  const ddprun::DistributedSampler sampler(options.samples, options.world_size, options.rank,
                                           {.shuffle = true, .seed = options.seed});
  indices_ = sampler.indices(epoch);
  // Item k of this worker is item rank + k * world_size of the global order, whose first `samples`
  // items are the data set and whose rest are repetitions.
  const std::int64_t own =
      (options.samples - options.rank + options.world_size - 1) / options.world_size;
  indices_.resize(static_cast<std::size_t>(std::max<std::int64_t>(own, 0)));
}

std::int64_t EpochBatches::steps() const {
  return (options_.samples + global_batch_ - 1) / global_batch_;
}

std::int64_t EpochBatches::global_samples(std::int64_t step) const {
  return std::min(global_batch_, options_.samples - step * global_batch_);
}

std::span<const std::int64_t> EpochBatches::micro_batch(std::int64_t step,
                                                        std::int64_t pass) const {
  return slice((step * options_.gradient_accumulation + pass) * options_.batch_size,
               options_.batch_size);
}

std::span<const std::int64_t> EpochBatches::step_samples(std::int64_t step) const {
  const std::int64_t count = options_.gradient_accumulation * options_.batch_size;
  return slice(step * count, count);
}

std::span<const std::int64_t> EpochBatches::slice(std::int64_t first, std::int64_t count) const {
  const auto end = static_cast<std::int64_t>(indices_.size());
  const std::int64_t from = std::min(first, end);
  const std::int64_t to = std::min(first + count, end);
  return std::span(indices_).subspan(static_cast<std::size_t>(from),
                                     static_cast<std::size_t>(to - from));
}

}  // namespace trainer
