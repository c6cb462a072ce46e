// What collective_bench times: each collective with its buffers, its call, its right result and
// what its time means as bandwidth. Sizes and factors are those of nccl-tests.
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
  /// `bytes` is the size of the larger buffer of a rank, rounded down to what ranks can share.
  Case(const std::string& collective, ProcessGroup group, const Options& options,
       std::size_t bytes);

  /// Of the larger buffer.
  std::size_t bytes() const { return large_elements_ * size_of(options_.type); }
  /// nccl-tests' count: elements of a rank's part where there are parts.
  std::size_t count() const;

  /// "sum", or "none" where nothing is combined.
  std::string op() const;
  /// -1 where there is none.
  int root() const;

  /// Blocks until it has ended on this rank.
  void call();

  /// Fills the input in, calls, and returns how many elements of this rank's result are wrong.
  std::size_t count_wrong();

  /// Bytes a second over the slowest link, from the bytes a second of the call.
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
  void fill();
  double expected(std::size_t index) const;

  const Options& options_;
  ProcessGroup group_;
  Kind kind_ = Kind::all_reduce;
  std::size_t large_elements_;
  std::shared_ptr<void> first_;
  std::shared_ptr<void> second_;
};

}  // namespace ddprun::bench
