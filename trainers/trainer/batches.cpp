#include "trainers/trainer/batches.hpp"

#include <algorithm>

namespace trainer {

EpochBatches::EpochBatches(const BatchOptions& options, std::int64_t epoch)
    : options_(options),
      global_batch_(options.global_batch > 0
                        ? options.global_batch
                        : options.batch_size * options.gradient_accumulation * options.world_size) {
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

std::int64_t EpochBatches::passes() const {
  if (options_.global_batch == 0) return options_.gradient_accumulation;
  const std::int64_t share = (global_batch_ + options_.world_size - 1) / options_.world_size;
  return (share + options_.batch_size - 1) / options_.batch_size;
}

std::span<const std::int64_t> EpochBatches::micro_batch(std::int64_t step,
                                                        std::int64_t pass) const {
  const std::int64_t first = first_own(step * global_batch_) + pass * options_.batch_size;
  const std::int64_t end = first_own((step + 1) * global_batch_);
  return slice(std::min(first, end), std::min(first + options_.batch_size, end));
}

std::span<const std::int64_t> EpochBatches::step_samples(std::int64_t step) const {
  return slice(first_own(step * global_batch_), first_own((step + 1) * global_batch_));
}

/// Of this worker's samples, which are every world_size-th of the order, the first at or after this
/// position.
std::int64_t EpochBatches::first_own(std::int64_t position) const {
  const std::int64_t distance = std::max<std::int64_t>(position - options_.rank, 0);
  return (distance + options_.world_size - 1) / options_.world_size;
}

std::span<const std::int64_t> EpochBatches::slice(std::int64_t first, std::int64_t end) const {
  const auto count = static_cast<std::int64_t>(indices_.size());
  const std::int64_t from = std::min(first, count);
  const std::int64_t to = std::min(end, count);
  return std::span(indices_).subspan(static_cast<std::size_t>(from),
                                     static_cast<std::size_t>(to - from));
}

}  // namespace trainer
