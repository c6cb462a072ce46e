// What a backend does with this rank's device: collectives that are handed to it and end by
// themselves, and the memory that they are about. Streams are cudaStream_t, null the default one.
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

  /// This rank's.
  virtual const Device& device() const = 0;

  /// How far `stream` has come, for one Operation. Any thread. The first call of this class makes
  /// CUDA at home on the device, which takes some tenths of a second.
  virtual void* mark(void* stream) = 0;

  /// What stands for the capture into a graph that `stream` is part of; 0: it is part of none. Any
  /// thread. Throws Error{Errc::usage} where no call could be made of it: its capture has failed.
  virtual std::uint64_t capture_of(void* stream) = 0;

  // By who carries operations out, one call at a time, after Backend::enter():

  /// Hands `operation`, which is no message, to the device, where it begins after its mark and
  /// after those launched before it. It has to end by `deadline`. After an exception this object is
  /// only good for ended(), and the device runs nothing of it any more.
  virtual void launch(const Operation& operation, Deadline deadline) = 0;

  /// How many of the operations that were launched have ended. Throws what the next one failed
  /// with, and all after it.
  virtual std::uint64_t ended() = 0;

  /// Makes `operation`, which is no message, part of the capture that `stream` is part of, behind
  /// what that has been given and the calls that were captured before. Returns its number in the
  /// capture. Waits for NCCL to take it, until `deadline`, for nothing on the device. What cannot
  /// be captured is Error{Errc::usage}, and nothing has happened then; after another exception as
  /// launch().
  virtual std::uint64_t capture(const Operation& operation, void* stream, Deadline deadline) = 0;

  /// Throws if the group or NCCL has failed, though nothing may be under way that is known of:
  /// graphs with captured operations are launched by the program.
  virtual void watch() = 0;

  // Any thread:

  /// What `stream`, which is part of the capture, is given from now on comes behind that operation.
  /// Throws Error{Errc::usage} if it is part of no capture or of another one.
  virtual void hold_captured(void* stream, std::uint64_t capture, std::uint64_t call) = 0;

  /// What `stream` is given from now on begins once the first `launches` operations have ended.
  virtual void hold(void* stream, std::uint64_t launches) = 0;

  /// Memory on the device, zeroed, freed with the last copy of the pointer. Blocks.
  virtual std::shared_ptr<void> allocate(std::size_t bytes) = 0;

  /// The same, but the group's collectives take it as it is where others copy. For what many of
  /// them are called of: who passes such memory to a collective, from its beginning, needs that all
  /// ranks do. Null, with the reason in the group's log, if this rank can have none, and until a
  /// collective of all ranks has been on their devices.
  virtual std::shared_ptr<void> allocate_registered(std::size_t bytes) = 0;

  /// Gives `stream`: to[i] = from[i] * scale in each piece, as cuda::KernelCalls::convert().
  virtual void convert(std::span<const DevicePiece> pieces, DataType from, DataType to,
                       double scale, void* stream) = 0;

  /// Gives `stream`: to[i] += from[i] in each piece, as cuda::KernelCalls::add().
  virtual void add(std::span<const DevicePiece> pieces, DataType from, void* stream) = 0;

  /// Gives `stream`: so many bytes at `memory` are zero.
  virtual void zero(void* memory, std::size_t bytes, void* stream) = 0;

  /// What `after` is given from now on begins once `before` has done what it has been given.
  virtual void order(void* before, void* after) = 0;

  /// Blocks until the stream of `mark`, which is used up by this, has come there. Throws what
  /// launch() or watch() has failed with by then, too: that ends what streams wait for.
  virtual void await(void* mark, Deadline deadline) = 0;

  /// Copies to or from the device, beside what streams have been given. Blocks.
  virtual void copy(void* to, const void* from, std::size_t bytes, Deadline deadline) = 0;
};

}  // namespace ddprun
