// The command line of collective_bench: nccl-tests' options, and the backends to compare.
#pragma once

#include <ddprun/buffer.hpp>

#include <cstddef>
#include <string>
#include <variant>
#include <vector>

namespace ddprun::bench {

struct Options {
  std::vector<std::string> collectives = {"all_reduce"};
  std::vector<std::string> backends = {"host"};
  std::size_t min_bytes = 32 << 20;
  std::size_t max_bytes = 32 << 20;
  std::size_t step_bytes = 1 << 20;
  int step_factor = 0;  ///< 0: sizes grow by step_bytes
  int iterations = 20;
  int warmup_iterations = 1;
  int rounds = 5;
  int check = 1;
  bool latencies = false;   ///< each call is timed alone
  bool own_memory = false;  ///< buffers of the caller instead of the group
  bool rewrite = false;     ///< each call is timed alone, after its rank has written its input
  ReduceOp op = ReduceOp::sum;
  DataType type = DataType::float32;
  int root = 0;
  std::string csv;
  std::string json;
};

/// Parsed options, or the exit code if the program has printed help or an error.
std::variant<Options, int> parse(int argc, char** argv);

/// The requested sizes, ascending.
std::vector<std::size_t> sizes_of(const Options& options);

/// nccl-tests' names: "float", "sum".
std::string type_name(DataType type);
std::string op_name(ReduceOp op);

}  // namespace ddprun::bench
