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
  std::string test_data;  ///< token file; after parsing: empty if there is none
  std::string model = "tiny";
  Shape shape;  ///< after parsing: the preset with what was given besides; vocabulary 0: the data's
  std::string device = "cpu";
  std::string dtype = "float32";
  bool cuda_graph = false;
  int threads = 1;              ///< of the CPU's matrix products, per worker
  std::int64_t batch_size = 4;  ///< sequences per worker and backward pass
  std::int64_t gradient_accumulation = 1;
  std::int64_t global_batch_size = 0;  ///< sequences of all workers; 0: as many as they make
  std::int64_t steps = 200;
  double lr = 6e-4;
  std::string lr_schedule = "cosine";
  double lr_final = 0.1;  ///< of lr, at the last step
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
  std::string help;  ///< if not empty, --help was given: print this and do nothing else
};

/// Options may be spelled with dashes or underscores. Throws Error{Errc::usage} saying what is
/// wrong: an unknown option, a bad value, options that contradict each other.
CommandLine parse_command_line(int argc, const char* const* argv);

/// For step number `step`, counted from 1: rises linearly over the warm-up, then falls as half a
/// cosine wave to lr_final * lr at the last step, or stays.
double learning_rate(const Options& options, std::int64_t step);

}  // namespace trainer::gpt2
