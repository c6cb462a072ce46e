// What libtorch_spirals is told on its command line.
#pragma once

#include <cstdint>
#include <string>

namespace trainer::spirals {

struct Options {
  std::int64_t epochs = 20;
  std::int64_t samples = 3000;
  std::int64_t global_batch_size = 60;  ///< samples of all workers in a step
  double lr = 0.01;
  std::int64_t seed = 1;
  std::string checkpoint_dir;  ///< empty: none are written
  std::int64_t checkpoint_every = 50;
  std::string metrics;  ///< empty: none
};

struct CommandLine {
  Options options;
  std::string help;  ///< if that was asked for
};

/// Throws Error{Errc::usage} saying what is wrong.
CommandLine parse_command_line(int argc, const char* const* argv);

}  // namespace trainer::spirals
