// Memory of one CUDA device, and operations on it between collectives. Any thread.
#pragma once

#include "worker_runtime/backends/device_queue.hpp"
#include "worker_runtime/backends/nccl/libraries.hpp"
#include "worker_runtime/cuda/device_objects.hpp"
#include <ddprun/deadline.hpp>

#include <cstddef>
#include <span>

namespace ddprun::nccl {

class DeviceMemory {
 public:
  /// `libraries` must outlive this object and its memory.
  DeviceMemory(const Libraries& libraries, int device)
      : libraries_(libraries),
        device_(device),
        stream_(*libraries.cuda, device),
        events_(*libraries.cuda) {}

  /// Returns zeroed memory, to be freed by release(). Blocks.
  void* allocate(std::size_t bytes);

  /// Frees memory when the device has completed all work. Blocks.
  static void release(const Libraries& libraries, int device, void* memory) noexcept;

  // Like the functions of DeviceQueue:
  void convert(std::span<const DevicePiece> pieces, DataType from, DataType to, double scale,
               void* stream);
  void add(std::span<const DevicePiece> pieces, DataType from, void* stream);
  void zero(void* memory, std::size_t bytes, void* stream);
  void order(void* before, void* after);
  void copy(void* to, const void* from, std::size_t bytes, Deadline deadline);

 private:
  const Libraries libraries_;
  const int device_;
  cuda::Stream stream_;  ///< stream of copies and of zeroing new memory
  cuda::EventPool events_;
};

}  // namespace ddprun::nccl
