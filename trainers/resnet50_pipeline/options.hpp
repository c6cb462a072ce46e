// The command line of resnet50_pipeline.
#pragma once

#include <ddprun/pipeline.hpp>

#include <cstdint>
#include <string>

namespace trainer::resnet50 {

struct Options {
  int stages = 2;
  std::int64_t split_size = 20;  ///< images of a micro-batch; 0: the whole batch
  ddprun::PipelineSchedule schedule = ddprun::PipelineSchedule::one_forward_one_backward;
  std::int64_t batches = 3;
  std::int64_t batch_size = 120;  ///< images of a batch, of each replica
  std::int64_t image_size = 128;  ///< pixels of a side
  std::int64_t classes = 1000;
  double lr = 0.001;
  std::uint64_t seed = 0;
  std::string metrics;
};

struct CommandLine {
  Options options;
  std::string help;  ///< help text to print; empty if not requested
};

/// Throws Error{Errc::usage} for invalid options.
CommandLine parse_command_line(int argc, const char* const* argv);

}  // namespace trainer::resnet50
