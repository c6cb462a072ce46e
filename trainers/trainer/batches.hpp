// Which samples a worker uses in which step and backward pass. An epoch visits every sample exactly
// once, whatever the number of workers: the elastic sampler's windows, one for each step, of which
// every worker takes its share. The last window holds what is left, so its shares may be smaller,
// uneven or empty; the gradients stay right because every worker divides by the samples of the
// whole window and the reducer adds up.
#pragma once

#include <ddprun/elastic_sampler.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace trainer {

struct BatchOptions {
  std::int64_t samples = 0;  ///< of the data set
  int world_size = 1;
  int rank = 0;
  std::int64_t batch_size = 1;             ///< per worker and backward pass
  std::int64_t gradient_accumulation = 1;  ///< backward passes per step
  /// If not 0: samples of all workers per step, in as many passes of batch_size as it takes. The
  /// windows are then the same however many workers there are.
  std::int64_t global_batch = 0;
  std::uint64_t seed = 0;
};

/// One worker's view of one epoch.
class EpochBatches {
 public:
  EpochBatches(const BatchOptions& options, std::int64_t epoch);

  /// Backward passes per step.
  std::int64_t passes() const;

  /// Optimizer steps in the epoch, the same on all workers.
  std::int64_t steps() const;

  /// Samples of all workers in every step but the last, which may have fewer.
  std::int64_t global_batch() const { return global_batch_; }

  /// Samples of all workers in this step.
  std::int64_t global_samples(std::int64_t step) const;

  /// This worker's samples in backward pass `pass` of the step. May be empty.
  std::span<const std::int64_t> micro_batch(std::int64_t step, std::int64_t pass) const;

  /// This worker's samples of all passes of the step.
  std::span<const std::int64_t> step_samples(std::int64_t step) const;

 private:
  BatchOptions options_;
  std::int64_t global_batch_;
  std::vector<std::int64_t> indices_;     ///< of this worker, step by step
  std::vector<std::size_t> step_begins_;  ///< in indices_; one more than there are steps
};

}  // namespace trainer
