// Samples of a worker in each step and backward pass. An epoch uses every sample exactly once, with
// any number of workers: each step has a window of the elastic sampler, of which every worker has a
// share. The last window has the remainder, so its shares may be smaller, uneven or empty;
// gradients stay correct, since every worker divides by the samples of the whole window and the
// reducer sums.
#pragma once

#include <ddprun/elastic_sampler.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace trainer {

struct BatchOptions {
  std::int64_t samples = 0;  ///< size of the data set
  int world_size = 1;
  int rank = 0;
  std::int64_t batch_size = 1;             ///< per worker and backward pass
  std::int64_t gradient_accumulation = 1;  ///< backward passes per step
  /// If not 0: samples of a step over all workers, in as many passes of batch_size as necessary.
  /// Windows then do not depend on the number of workers.
  std::int64_t global_batch = 0;
  std::uint64_t seed = 0;
};

/// An epoch of one worker.
class EpochBatches {
 public:
  EpochBatches(const BatchOptions& options, std::int64_t epoch);

  /// Number of backward passes per step.
  std::int64_t passes() const;

  /// Number of optimizer steps in the epoch, equal on all workers.
  std::int64_t steps() const;

  /// Samples of all workers in each step except the last, which may have fewer.
  std::int64_t global_batch() const { return global_batch_; }

  /// Returns the number of samples of all workers in this step.
  std::int64_t global_samples(std::int64_t step) const;

  /// Returns this worker's samples in backward pass `pass` of the step. May be empty.
  std::span<const std::int64_t> micro_batch(std::int64_t step, std::int64_t pass) const;

  /// Returns this worker's samples of all passes of the step.
  std::span<const std::int64_t> step_samples(std::int64_t step) const;

 private:
  BatchOptions options_;
  std::int64_t global_batch_;
  std::vector<std::int64_t> indices_;     ///< samples of this worker in order of the steps
  std::vector<std::size_t> step_begins_;  ///< start of each step in indices_, and the end
};

}  // namespace trainer
