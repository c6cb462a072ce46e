// The cases of collective_bench: each collective with its buffers, call, expected result and
// bandwidth. Sizes and factors are those of nccl-tests.
#pragma once

#include "tests/bench/collective_bench/options.hpp"
#include <ddprun/process_group.hpp>

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace ddprun::bench {

std::vector<std::string> case_names();

/// One collective at one size on one group, with its memory.
class Case {
 public:
  /// `bytes`: size of the larger buffer of a rank, rounded down to a multiple that ranks can share.
  Case(const std::string& collective, ProcessGroup group, const Options& options,
       std::size_t bytes);

  /// Size of the larger buffer.
  std::size_t bytes() const { return large_elements_ * size_of(options_.type); }
  /// nccl-tests' count: elements of a rank's part if there are parts.
  std::size_t count() const;

  /// "sum", or "none" without a reduction.
  std::string op() const;
  /// Root rank; -1 without one.
  int root() const;

  void write_input();
  /// Blocks until it has ended on this rank.
  void call();

  /// Fills the input, calls, and returns the number of wrong elements in this rank's result.
  std::size_t count_wrong();

  /// Bytes per second over the slowest link, from the bytes per second of the call.
  double bus_factor() const;

 private:
  enum class Kind {
    all_reduce,
    all_gather,
    reduce_scatter,
    broadcast,
    reduce,
    gather,
    scatter,
    all_to_all,
    sendrecv
  };
  friend std::vector<std::string> case_names();
  struct Name {
    const char* name;
    Kind kind;
  };
  static const Name kNames[];

  bool combines() const;
  bool has_root() const;
  bool has_output() const;
  Buffer input() const;
  Buffer output() const;
  void clear_output();
  double expected(std::size_t index) const;

  const Options& options_;
  ProcessGroup group_;
  Kind kind_ = Kind::all_reduce;
  std::size_t large_elements_;
  std::shared_ptr<void> first_;
  std::shared_ptr<void> second_;
};

}  // namespace ddprun::bench
