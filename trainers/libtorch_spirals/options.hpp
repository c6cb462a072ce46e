// The command line of libtorch_spirals.
#pragma once

#include <cstdint>
#include <string>

namespace trainer::spirals {

struct Options {
  std::int64_t epochs = 20;
  std::int64_t samples = 3000;
  std::int64_t global_batch_size = 60;  ///< samples of a step over all workers
  double lr = 0.01;
  std::int64_t seed = 1;
  std::string checkpoint_dir;  ///< empty: no checkpoints
  std::int64_t checkpoint_every = 50;
  std::string metrics;  ///< empty: no metrics
};

struct CommandLine {
  Options options;
  std::string help;  ///< help text to print; empty if not requested
};

/// Throws Error{Errc::usage} for invalid options.
CommandLine parse_command_line(int argc, const char* const* argv);

}  // namespace trainer::spirals
