// Which samples a worker uses in which step, exactly once each in an epoch however often the number
// of workers changes. There is one order of all samples for (seed, epoch) and one cursor into it
// for all workers; each step takes the next window of the order, of which every worker has a share.
// The cursor moves when the step is committed, by what the step used, not by what was loaded ahead;
// a checkpoint holds it. One thread at a time; calls no collectives, so all ranks must do the same.
#pragma once

#include <ddprun/distributed_sampler.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace ddprun {

/// The order of the samples of an epoch.
enum class SampleOrder : std::uint8_t {
  /// torch.randperm with seed + epoch, the order of PyTorch's DistributedSampler. Takes 8 bytes a
  /// sample.
  pytorch,
  /// A permutation that is computed sample by sample, for data sets of any size.
  computed,
  /// 0, 1, 2, ...
  sequential,
};

/// What becomes of the last window of an epoch if fewer samples are left than a step takes.
enum class TailPolicy : std::uint8_t {
  /// The window is smaller: each sample is used exactly once.
  smaller,
  /// It is left out: samples that no step has used in this epoch are not used at all.
  drop,
  /// It is filled up from the front of the order; is_repeated() tells, so that the loss can leave
  /// those out.
  pad,
};

/// What an ElasticSampler draws from; compared when it is resumed.
struct ElasticSamplerOptions {
  std::int64_t samples = 0;       ///< of the data set
  std::int64_t global_batch = 1;  ///< samples of all workers in a step, however many workers
  std::uint64_t seed = 0;         ///< the same on every rank
  SampleOrder order = SampleOrder::pytorch;  ///< of all samples in an epoch
  TailPolicy tail = TailPolicy::smaller;     ///< of each epoch
};

/// The samples of one worker, for any number of workers.
class ElasticSampler {
 public:
  /// What a checkpoint keeps: where the run is, and what that refers to.
  struct State {
    std::int64_t epoch = 0;         ///< from 0
    std::int64_t cursor = 0;        ///< samples of the epoch's order that committed steps have used
    ElasticSamplerOptions options;  ///< of the sampler that was saved

    /// One line of text, "ddprun-sampler 1 epoch=2 cursor=640 samples=...".
    std::string to_text() const;
    /// Throws Error{Errc::usage} saying what is not readable.
    static State from_text(const std::string& text);
  };

  /// Throws Error{Errc::usage} for numbers that are out of range, naming them.
  ElasticSampler(ElasticSamplerOptions options, int world_size, int rank);

  /// One with the options of `state` that goes on there.
  static ElasticSampler resumed(const State& state, int world_size, int rank);

  /// The current epoch, from 0.
  std::int64_t epoch() const { return epoch_; }
  /// Samples of this epoch's order that committed steps have used.
  std::int64_t cursor() const { return cursor_; }

  /// No step is left in this epoch.
  bool is_at_end() const;

  /// Steps of a whole epoch.
  std::int64_t steps() const;

  /// Samples of all workers in the step at the cursor, repeated ones included: what gradients that
  /// are summed over workers and samples are divided by, unless repeated ones do not count.
  std::int64_t window_size() const { return window_size(cursor_); }
  /// Those of them that are used for the first time in this epoch.
  std::int64_t new_samples() const;

  /// This worker's samples of the step at the cursor: items rank, rank + world_size, ... of the
  /// window. May be empty.
  std::vector<std::int64_t> samples() const { return samples_ahead(0); }
  /// The same, `steps` steps later in this epoch, for loading ahead; empty beyond the epoch's end,
  /// too, which only is_at_end(), of a copy that runs ahead, tells from an empty share.
  std::vector<std::int64_t> samples_ahead(std::int64_t steps) const;

  /// Whether item `index` of samples() was used in this epoch before (TailPolicy::pad).
  bool is_repeated(std::size_t index) const;

  /// The step at the cursor is part of the training state.
  void commit();

  /// To be called at the end of an epoch.
  void next_epoch();

  /// What a checkpoint keeps of this sampler.
  State state() const;

  /// Goes on where `state` was saved, with this sampler's world size. Throws Error{Errc::usage}
  /// naming every option that is another one here, unless `force`; then its cursor counts for the
  /// order that this sampler has.
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
  std::vector<std::int64_t> order_;  ///< of the epoch; empty if it is computed
};

/// Position `index` of a permutation of 0..n-1, a function of its arguments alone. Takes no memory.
/// `index` must be below `n`.
std::int64_t permuted(std::int64_t index, std::int64_t n, std::uint64_t seed);

}  // namespace ddprun
