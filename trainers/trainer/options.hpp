// The trainer's command line.
#pragma once

#include "trainers/tracking/options.hpp"
#include <ddprun/buffer.hpp>

#include <cstdint>
#include <string>

namespace trainer {

struct Options {
  std::string model = "mlp";
  std::string loss;     ///< after parsing: cross_entropy or mse
  std::string dataset;  ///< after parsing: fashion_mnist or random
  std::string data_dir = "/usr/share/datasets/fashion-mnist";
  bool batch_norm = false;
  std::int64_t batch_size = 64;  ///< per worker
  std::int64_t gradient_accumulation = 1;
  std::int64_t global_batch_size = 0;  ///< of all workers, however many; 0: as many as they make
  std::int64_t epochs = 8;
  std::int64_t max_steps = 0;  ///< 0: no limit
  std::string optimizer = "sgd";
  double lr = 0;  ///< after parsing: above 0
  std::string lr_schedule = "linear";
  double momentum = 0.9;
  std::int64_t seed = 0;  ///< at most 32 bits, as many as the random generator takes
  double bucket_cap_mb = 25;
  std::string backend = "auto";
  std::string collectives = "own";  ///< or pytorch: those that DDP would call
  std::string device = "cpu";
  std::string dtype = "float32";  ///< of weights and activations
  std::string embedding_device;   ///< after parsing: cpu or cuda
  int threads = 1;                ///< of the CPU's matrix products, per worker
  std::string checkpoint_dir;
  std::int64_t checkpoint_every = 100;  ///< steps
  std::string metrics;
  std::string ledger;
  std::string trace_collectives;
  TrackingOptions tracking;

  ddprun::DataType type() const;
};

struct CommandLine {
  Options options;
  std::string help;  ///< if not empty, --help was given: print this and do nothing else
};

/// Options may be spelled with dashes or underscores. Throws Error{Errc::usage} saying what is
/// wrong: an unknown option, a bad value, options that contradict each other.
CommandLine parse_command_line(int argc, const char* const* argv);

}  // namespace trainer
