// Operations of a reducer on tensors between collectives: synchronous on the CPU, on a stream
// (cudaStream_t) on a device. The CPU ignores streams. Any thread.
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

/// A copy between tensors with equal numbers of elements.
struct TensorCopy {
  Buffer from;
  Buffer to;
};

class TensorWork {
 public:
  /// `device`: device of the tensors: the CPU or the group's device.
  TensorWork(ProcessGroup group, Device device);

  const Device& device() const { return device_; }
  bool is_on_device() const { return device_.kind != Device::Kind::cpu; }

  /// Returns zeroed memory. Blocks.
  std::shared_ptr<void> allocate(std::size_t bytes) const;
  /// On a device, like DeviceQueue::allocate_registered().
  std::shared_ptr<void> allocate_registered(std::size_t bytes) const;

  /// On the CPU both types are equal; on a device float types may differ.
  void copy(std::span<const TensorCopy> copies, void* stream) const;
  /// Adds each `from`, of a half type or float32, to its `to`, of float32.
  void add(std::span<const TensorCopy> sums, void* stream) const;
  void zero(const Buffer& tensor, void* stream) const;
  void scale(const Buffer& tensor, double factor, void* stream) const;

  /// Makes later work on `after` wait for the current work on `before`.
  void order(void* before, void* after) const;

  /// Like DeviceQueue::capture_of(); 0 for the CPU.
  std::uint64_t capture_of(void* stream) const;

  /// Blocks until the current work on `stream` has ended.
  void await(void* stream, Deadline deadline) const;

  /// Returns the tensor's bytes in host memory: its own, or a copy in `memory`. Blocks, but not for
  /// work on streams.
  std::span<const std::byte> read(const Buffer& tensor, std::vector<std::byte>& memory) const;

 private:
  mutable ProcessGroup group_;
  const Device device_;
  DeviceQueue* const queue_;  ///< owned by the group
};

}  // namespace ddprun
