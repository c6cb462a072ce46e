// Results of collective_bench in three forms: nccl-tests' table, CSV and JSON.
#pragma once

#include "tests/bench/collective_bench/options.hpp"

#include <cstddef>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

namespace ddprun::bench {

/// One collective at one size on one backend.
struct Figure {
  std::string collective;
  std::string backend;
  std::size_t bytes = 0;
  std::size_t count = 0;
  std::string op;
  int root = -1;
  double seconds = 0;                 ///< of a call, median of the rounds
  std::optional<double> p99_seconds;  ///< of single calls
  double bus_factor = 1;
  std::optional<std::size_t> wrong;     ///< elements, over all ranks
  std::optional<double> probe_seconds;  ///< time of the memory alone for the same bytes
  double to_first = 1;                  ///< seconds as a multiple of the first backend's

  double algorithm_bandwidth() const { return static_cast<double>(bytes) / seconds; }
  double bus_bandwidth() const { return algorithm_bandwidth() * bus_factor; }
};

/// To standard output.
void print_header(const Options& options, int ranks);
void print(const Figure& figure, const Options& options);

/// Output files of the options, opened before the measurements. Throws Error if one cannot be
/// written, then or later.
class FigureFiles {
 public:
  explicit FigureFiles(const Options& options);
  void write(int ranks, const std::vector<Figure>& figures);

 private:
  const Options& options_;
  std::ofstream csv_;
  std::ofstream json_;
};

}  // namespace ddprun::bench
