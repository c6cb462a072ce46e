// A random sequence of collectives and messages, the same on every rank, each result compared with
// the serial one. Positions of buffers and times of waits are random on each rank.
#pragma once

#include "tests/support/serial_collectives.hpp"
#include <ddprun/process_group.hpp>

#include <cstddef>
#include <deque>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

namespace ddprun::test {

/// Guarantee of a backend for its sums.
enum class Arithmetic {
  in_rank_order,  ///< equal to the serial one bit for bit; averages of all types
  in_any_order,   ///< equal up to rounding; averages of 64-bit integers only
};

class RandomCalls {
 public:
  /// `on_nodes`: number of ranks on each node; empty for one node.
  RandomCalls(ProcessGroup group, unsigned seed, std::vector<int> on_nodes = {},
              Arithmetic arithmetic = Arithmetic::in_rank_order);

  struct DeviceMemory {
    Device device;
    std::shared_ptr<void> (*allocate)(std::size_t bytes);
    /// Copies between host and device, ordered with the legacy default stream.
    void (*copy)(void* to, const void* from, std::size_t bytes);
  };

  /// From now on about half of the calls use buffers in this memory.
  void use_device(const DeviceMemory& memory) { device_ = memory; }

  /// Makes this number of calls. Returns the first mismatch, or "ok". Throws the exception of a
  /// failed call.
  std::string run(int calls);

 private:
  struct Memory {
    std::shared_ptr<void> owner;
    Buffer buffer;
  };
  struct Pending {
    std::string what;
    Work work;
    Memory input;
    Memory output;
    Bytes expected;  ///< in `output`
  };

  Pending call();
  Pending reduction(const std::vector<Bytes>& inputs, DataType type);
  /// Returns true if averages of this type equal the serial ones.
  bool has_exact_average(DataType type) const;
  Pending movement(const std::vector<Bytes>& inputs, DataType type);
  Pending ring(const Bytes& own, const Bytes& previous, DataType type);
  Memory place(const Bytes& content, DataType type);
  Bytes read(const Buffer& buffer) const;
  void copy(void* to, const void* from, std::size_t bytes, Device device) const;
  std::shared_ptr<void> allocate(std::size_t bytes);
  int pick(int count) { return std::uniform_int_distribution(0, count - 1)(shared_random_); }

  ProcessGroup group_;
  std::vector<int> on_nodes_;
  Arithmetic arithmetic_;
  std::optional<DeviceMemory> device_;
  Device place_;                ///< of the current call's buffers
  std::mt19937 shared_random_;  ///< equal on all ranks
  std::mt19937 own_random_;
  std::deque<Pending> pending_;
};

}  // namespace ddprun::test
