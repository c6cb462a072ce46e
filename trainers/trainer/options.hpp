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
  /// samples of a step over all workers; 0: the product of the other options
  std::int64_t global_batch_size = 0;
  std::int64_t epochs = 8;
  std::int64_t max_steps = 0;  ///< 0: no limit
  std::string optimizer = "sgd";
  double lr = 0;  ///< after parsing: above 0
  std::string lr_schedule = "linear";
  double momentum = 0.9;
  std::int64_t seed = 0;  ///< at most 32 bits, as for the random generator
  double bucket_cap_mb = 25;
  std::string backend = "auto";
  std::string collectives = "own";  ///< own, or pytorch: those of DDP
  std::string device = "cpu";
  std::string dtype = "float32";  ///< type of weights and activations
  std::string embedding_device;   ///< after parsing: cpu or cuda
  int threads = 1;                ///< CPU threads for matrix products, per worker
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
  std::string help;  ///< help text to print; empty if not requested
};

/// Options may be spelled with dashes or underscores. Throws Error{Errc::usage} for unknown
/// options, invalid values and contradictory options.
CommandLine parse_command_line(int argc, const char* const* argv);

}  // namespace trainer
