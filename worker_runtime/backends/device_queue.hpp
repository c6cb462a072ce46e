// Interface to this rank's device: asynchronous collectives, and device memory. Streams are
// cudaStream_t; null is the default stream.
#pragma once

#include "worker_runtime/backends/backend.hpp"
#include "worker_runtime/cuda/device_piece.hpp"
#include <ddprun/buffer.hpp>
#include <ddprun/deadline.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace ddprun {

class DeviceQueue {
 public:
  DeviceQueue() = default;
  DeviceQueue(const DeviceQueue&) = delete;
  DeviceQueue& operator=(const DeviceQueue&) = delete;
  virtual ~DeviceQueue() = default;

  /// Returns the device of this rank.
  virtual const Device& device() const = 0;

  /// Records the position of `stream`, for Operation::mark. Any thread. The first call of this
  /// class initialises CUDA on the device, which takes some tenths of a second.
  virtual void* mark(void* stream) = 0;

  /// Returns an identifier of the capture that `stream` is part of; 0 if none. Any thread. Throws
  /// Error{Errc::usage} if the capture has failed.
  virtual std::uint64_t capture_of(void* stream) = 0;

  // One call at a time, by the thread that runs operations, after Backend::enter():

  /// Launches `operation`, which is not a message; it starts after its mark and the operations
  /// launched before, and must end by `deadline`. After an exception only ended() may be called,
  /// and the device runs no more operations.
  virtual void launch(const Operation& operation, Deadline deadline) = 0;

  /// Returns the number of launched operations that have ended. Throws the failure of the next one.
  virtual std::uint64_t ended() = 0;

  /// Adds `operation`, which is not a message, to the capture of `stream`, after earlier work on
  /// the stream and earlier captured calls. Returns its 1-based index in the capture. Waits for
  /// NCCL until `deadline`, but not for the device. Throws Error{Errc::usage} without side effects
  /// if it cannot be captured; for other exceptions see launch().
  virtual std::uint64_t capture(const Operation& operation, void* stream, Deadline deadline) = 0;

  /// Throws if the group or NCCL has failed. Used for graphs with captured operations that the
  /// program launches.
  virtual void watch() = 0;

  // Any thread:

  /// Makes later work on `stream` in the capture depend on the operation with index `call`. Throws
  /// Error{Errc::usage} if the stream is not part of this capture.
  virtual void hold_captured(void* stream, std::uint64_t capture, std::uint64_t call) = 0;

  /// Makes later work on `stream` wait for the first `launches` operations.
  virtual void hold(void* stream, std::uint64_t launches) = 0;

  /// Returns zeroed device memory, freed with the last copy of the pointer. Blocks.
  virtual std::shared_ptr<void> allocate(std::size_t bytes) = 0;

  /// Like allocate(), but registers the memory with the communicator, so collectives do not copy
  /// it. If a rank passes such memory from its beginning to a collective, all ranks must. Returns
  /// null and logs why if unavailable; null also before the group's first device collective.
  virtual std::shared_ptr<void> allocate_registered(std::size_t bytes) = 0;

  // The following functions are asynchronous on `stream`.

  /// Sets to[i] = from[i] * scale in each piece, like cuda::KernelCalls::convert().
  virtual void convert(std::span<const DevicePiece> pieces, DataType from, DataType to,
                       double scale, void* stream) = 0;

  /// Adds to[i] += from[i] in each piece, like cuda::KernelCalls::add().
  virtual void add(std::span<const DevicePiece> pieces, DataType from, void* stream) = 0;

  /// Zeroes `bytes` at `memory`.
  virtual void zero(void* memory, std::size_t bytes, void* stream) = 0;

  /// Makes later work on `after` wait for the current work on `before`.
  virtual void order(void* before, void* after) = 0;

  /// Blocks until the stream of `mark` has reached it, and consumes `mark`. Also throws failures of
  /// launch() and watch(), after which streams stop waiting.
  virtual void await(void* mark, Deadline deadline) = 0;

  /// Copies to or from the device, independently of other streams. Blocks until it is done.
  virtual void copy(void* to, const void* from, std::size_t bytes, Deadline deadline) = 0;
};

}  // namespace ddprun
