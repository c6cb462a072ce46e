// The command line of gpt2.
#pragma once

#include "trainers/gpt2/shape.hpp"
#include "trainers/tracking/options.hpp"
#include <ddprun/buffer.hpp>

#include <cstdint>
#include <string>

namespace trainer::gpt2 {

struct Options {
  std::string data;       ///< token file
  std::string test_data;  ///< token file; after parsing: empty without test data
  std::string model = "tiny";
  Shape shape;  ///< after parsing: the preset with explicit sizes; vocabulary 0: the data's
  std::string device = "cpu";
  std::string dtype = "float32";
  bool cuda_graph = false;
  int threads = 1;              ///< CPU threads for matrix products, per worker
  std::int64_t batch_size = 4;  ///< sequences per worker and backward pass
  std::int64_t gradient_accumulation = 1;
  /// sequences of a step over all workers; 0: the product of the other options
  std::int64_t global_batch_size = 0;
  std::int64_t steps = 200;
  double lr = 6e-4;
  std::string lr_schedule = "cosine";
  double lr_final = 0.1;  ///< fraction of lr at the last step
  std::int64_t warmup_steps = 0;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double weight_decay = 0.1;
  double gradient_norm_max = 1;  ///< 0: no clipping
  std::int64_t seed = 0;
  std::int64_t print_every = 1;     ///< steps
  std::int64_t test_every = 0;      ///< steps; 0: at the end only
  std::int64_t test_sequences = 0;  ///< 0: all
  double bucket_cap_mb = 25;
  std::string backend = "auto";
  std::string checkpoint_dir;
  std::int64_t checkpoint_every = 100;  ///< steps
  std::string metrics;
  std::string ledger;
  TrackingOptions tracking = {.track_every = 1};

  ddprun::DataType type() const;
};

struct CommandLine {
  Options options;
  std::string help;  ///< help text to print; empty if not requested
};

/// Options may be spelled with dashes or underscores. Throws Error{Errc::usage} for unknown
/// options, invalid values and contradictory options.
CommandLine parse_command_line(int argc, const char* const* argv);

/// Returns the learning rate of step `step`, counted from 1: a linear warm-up, then a cosine decay
/// to lr_final * lr at the last step, or a constant.
double learning_rate(const Options& options, std::int64_t step);

}  // namespace trainer::gpt2
