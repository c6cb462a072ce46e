// A random sequence of collectives and messages, the same on every rank, each result compared with
// the serial one. Where buffers lie and when works are waited for is random on each rank for
// itself.
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

/// What a backend promises of its sums.
enum class Arithmetic {
  in_rank_order,  ///< the bits of the serial one; averages of all types
  in_any_order,   ///< right within rounding; integers are averaged if 64 bits wide
};

class RandomCalls {
 public:
  /// `on_nodes`: how the ranks are spread over nodes, if they are on several.
  RandomCalls(ProcessGroup group, unsigned seed, std::vector<int> on_nodes = {},
              Arithmetic arithmetic = Arithmetic::in_rank_order);

  using Allocate = std::shared_ptr<void> (*)(std::size_t bytes);

  /// From now on about half of the calls are with buffers on `device`, of memory that this process
  /// can use, too.
  void use_device(Device device, Allocate on_device) {
    device_ = device;
    allocate_on_device_ = on_device;
  }

  /// Makes so many calls. Returns what went wrong first, or "ok". Throws what a call fails with.
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
  Pending movement(const std::vector<Bytes>& inputs, DataType type);
  Pending ring(const Bytes& own, const Bytes& previous, DataType type);
  Memory place(const Bytes& content, DataType type);
  std::shared_ptr<void> allocate(std::size_t bytes);
  int pick(int count) { return std::uniform_int_distribution(0, count - 1)(shared_random_); }

  ProcessGroup group_;
  std::vector<int> on_nodes_;
  Arithmetic arithmetic_;
  std::optional<Device> device_;
  Allocate allocate_on_device_ = nullptr;
  Device place_;                ///< of the present call's buffers
  std::mt19937 shared_random_;  ///< what all ranks must agree in
  std::mt19937 own_random_;
  std::deque<Pending> pending_;
};

}  // namespace ddprun::test
