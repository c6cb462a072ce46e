// Samples of a worker in each step, exactly once per epoch even if the number of workers changes.
// All workers share one order of all samples per (seed, epoch) and one cursor into it. Each step
// uses the next window of the order, and every worker has a share of the window. Committing a step
// advances the cursor by the samples of the step, not by samples loaded ahead; checkpoints contain
// the cursor. One thread at a time; calls no collectives, so all ranks must make the same calls.
#pragma once

#include <ddprun/distributed_sampler.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace ddprun {

/// Order of the samples in an epoch.
enum class SampleOrder : std::uint8_t {
  /// torch.randperm with seed + epoch, like PyTorch's DistributedSampler. Allocates 8 bytes per
  /// sample.
  pytorch,
  /// A permutation computed per sample, for data sets of any size.
  computed,
  /// 0, 1, 2, ...
  sequential,
};

/// Handling of an epoch's last window if fewer samples remain than a step uses.
enum class TailPolicy : std::uint8_t {
  /// Uses a smaller window, so each sample is used exactly once.
  smaller,
  /// Drops the window; its samples are not used in this epoch.
  drop,
  /// Fills the window from the front of the order; is_repeated() is true for these samples.
  pad,
};

/// Options of an ElasticSampler, compared when it is resumed.
struct ElasticSamplerOptions {
  std::int64_t samples = 0;                  ///< size of the data set
  std::int64_t global_batch = 1;             ///< samples per step over all workers
  std::uint64_t seed = 0;                    ///< equal on all ranks
  SampleOrder order = SampleOrder::pytorch;  ///< order of the samples in an epoch
  TailPolicy tail = TailPolicy::smaller;     ///< handling of the last window
};

/// Samples of one worker, for any number of workers.
class ElasticSampler {
 public:
  /// State for a checkpoint.
  struct State {
    std::int64_t epoch = 0;         ///< current epoch, from 0
    std::int64_t cursor = 0;        ///< number of samples used by committed steps in the epoch
    ElasticSamplerOptions options;  ///< options of the saved sampler

    /// Returns one line of text, "ddprun-sampler 1 epoch=2 cursor=640 samples=...".
    std::string to_text() const;
    /// Parses text of to_text(). Throws Error{Errc::usage} for malformed text.
    static State from_text(const std::string& text);
  };

  /// Throws Error{Errc::usage} for numbers out of range.
  ElasticSampler(ElasticSamplerOptions options, int world_size, int rank);

  /// Returns a sampler with the options of `state` that continues from it.
  static ElasticSampler resumed(const State& state, int world_size, int rank);

  /// Returns the current epoch, from 0.
  std::int64_t epoch() const { return epoch_; }
  /// Returns the number of samples that committed steps have used in this epoch.
  std::int64_t cursor() const { return cursor_; }

  /// Returns true if no step is left in this epoch.
  bool is_at_end() const;

  /// Returns the number of steps in an epoch.
  std::int64_t steps() const;

  /// Returns the number of samples of all workers in the step at the cursor, including repeated
  /// samples. Gradients summed over workers and samples are divided by it, unless repeated samples
  /// are excluded.
  std::int64_t window_size() const { return window_size(cursor_); }
  /// Returns the number of samples of the window that are new in this epoch.
  std::int64_t new_samples() const;

  /// Returns this worker's samples of the step at the cursor: elements rank, rank + world_size, ...
  /// of the window. May be empty.
  std::vector<std::int64_t> samples() const { return samples_ahead(0); }
  /// Like samples(), but `steps` steps later in this epoch, for loading ahead. Empty beyond the end
  /// of the epoch and for an empty share; is_at_end() of a copy that runs ahead distinguishes them.
  /// Throws Error{Errc::usage} for negative `steps`.
  std::vector<std::int64_t> samples_ahead(std::int64_t steps) const;

  /// Returns true if element `index` of samples() was used before in this epoch (TailPolicy::pad).
  /// Throws Error{Errc::usage} if there is no such element.
  bool is_repeated(std::size_t index) const;

  /// Commits the step at the cursor: advances the cursor past its window.
  void commit();

  /// Starts the next epoch. Throws Error{Errc::usage} unless is_at_end().
  void next_epoch();

  /// Returns the state for a checkpoint.
  State state() const;

  /// Continues from `state` with this sampler's world size. Throws Error{Errc::usage} that lists
  /// all different options, unless `force` is set; the cursor then applies to this sampler's order.
  void load(const State& state, bool force = false);

 private:
  ElasticSampler(const State& state, int world_size, int rank);
  void go_to(const State& state);
  std::int64_t window_size(std::int64_t cursor) const;
  std::int64_t sample_at(std::int64_t position) const;
  void make_order();

  ElasticSamplerOptions options_;
  int world_size_;
  int rank_;
  std::int64_t epoch_ = 0;
  std::int64_t cursor_ = 0;
  std::vector<std::int64_t> order_;  ///< order of the epoch; empty if it is computed
};

/// Returns element `index` of a permutation of 0..n-1 that depends only on the arguments. Allocates
/// no memory. Throws Error{Errc::usage} unless `index` is within 0..n-1.
std::int64_t permuted(std::int64_t index, std::int64_t n, std::uint64_t seed);

}  // namespace ddprun
