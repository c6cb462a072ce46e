// What a reducer does with tensors between collectives: at once in the memory of the CPU, on a
// stream where they are on a device. Streams, cudaStream_t, count there only. Any thread.
#pragma once

#include "worker_runtime/backends/device_queue.hpp"
#include <ddprun/buffer.hpp>
#include <ddprun/deadline.hpp>
#include <ddprun/process_group.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace ddprun {

/// Both have as many elements.
struct TensorCopy {
  Buffer from;
  Buffer to;
};

class TensorWork {
 public:
  /// Of tensors on `device`, the CPU or the group's own.
  TensorWork(ProcessGroup group, Device device);

  const Device& device() const { return device_; }
  bool is_on_device() const { return device_.kind != Device::Kind::cpu; }

  /// Zeroed. Blocks.
  std::shared_ptr<void> allocate(std::size_t bytes) const;
  /// On a device: as DeviceQueue::allocate_registered().
  std::shared_ptr<void> allocate_registered(std::size_t bytes) const;

  /// On the CPU types are the same, on a device float types may differ.
  void copy(std::span<const TensorCopy> copies, void* stream) const;
  /// to += from, of half types or float32 and of float32.
  void add(std::span<const TensorCopy> sums, void* stream) const;
  void zero(const Buffer& tensor, void* stream) const;
  void scale(const Buffer& tensor, double factor, void* stream) const;

  /// What `after` is given from now on begins once `before` has done what it has been given.
  void order(void* before, void* after) const;

  /// As DeviceQueue::capture_of(); 0 for the CPU.
  std::uint64_t capture_of(void* stream) const;

  /// Blocks until `stream` has done what it has been given.
  void await(void* stream, Deadline deadline) const;

  /// The tensor's bytes in the memory of the CPU: where they were, or in `memory`. Blocks, but not
  /// for what streams are doing.
  std::span<const std::byte> read(const Buffer& tensor, std::vector<std::byte>& memory) const;

 private:
  mutable ProcessGroup group_;
  const Device device_;
  DeviceQueue* const queue_;  ///< the group's
};

}  // namespace ddprun
