// Computation for a trainer: device memory and the operations of operations.hpp on it. Programs
// that use it run on the CPU and on a GPU, and never access the memory directly. One thread at a
// time.
//
// Operations run asynchronously in call order; a failure may be thrown by a later call. Only
// copy_out() and wait() block, so a training step that reads no results never stalls the device.
//
// Results are deterministic: the order of additions depends on shapes only (no atomic additions of
// floats), so that resumed trainings continue identically and all workers stay equal.
//
// Every function throws Error{Errc::usage} with the operation and the array, without side effects,
// for arrays that are too small or have the wrong type.
#pragma once

#include "trainers/compute/operations.hpp"

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>

namespace trainer {

/// Device memory, freed with the last copy. Must not outlive its Compute.
struct Array {
  Buffer buffer;
  std::shared_ptr<void> hold;
};

/// A sequence of operations that can be launched repeatedly.
class Recording {
 public:
  virtual ~Recording() = default;

  /// Runs the operations in order, on the current contents of the arrays.
  virtual void launch() = 0;
};

class Compute {
 public:
  virtual ~Compute() = default;

  /// Returns the name, such as "CPU, 1 thread" or "CUDA device 0, NVIDIA H200".
  virtual std::string name() const = 0;

  /// Returns the device of the arrays.
  virtual ddprun::Device device() const = 0;

  /// Returns true if activations can have this type. All implementations support float32; the CPU
  /// also float64, for checking gradients, and CUDA bfloat16, for speed.
  virtual bool supports(ddprun::DataType type) const = 0;

  /// Returns the peak floating-point operations per second of matrix products in this type, for the
  /// model FLOPs utilisation; 0 if unknown. The first call may take milliseconds.
  virtual double peak_flops(ddprun::DataType type) = 0;

  /// Returns the cudaStream_t of the operations, for process group and reducer; null on the CPU.
  virtual void* stream() const = 0;

  /// Returns zeroed memory, aligned to at least 64 bytes. Throws Error{Errc::system or cuda} with
  /// the requested size if memory is insufficient.
  virtual Array allocate(std::size_t elements, ddprun::DataType type) = 0;

  /// Copies to.bytes() bytes from host to device memory. `from` may change after the call.
  virtual void copy_in(std::span<const std::byte> from, const Buffer& to) = 0;

  /// Copies from device to host memory after all earlier operations. Blocks.
  virtual void copy_out(const Buffer& from, std::span<std::byte> to) = 0;

  /// Sets all bits to zero.
  virtual void zero(const Buffer& buffer) = 0;

  /// Blocks until all operations have ended. Throws their failures.
  virtual void wait() = 0;

  /// Records the operations of `work` without running them; on a GPU as a CUDA graph, whose launch
  /// costs as much as one operation. `work` must run the same operations in every call, must have
  /// run before, and must neither copy from or to host memory nor wait; collectives on stream() may
  /// be part of it. Referenced objects must outlive the recording, which must not outlive this
  /// object.
  virtual std::unique_ptr<Recording> record(const std::function<void()>& work) = 0;

  virtual void run(const MatrixProduct& operation) = 0;
  virtual void run(const SumOfRows& operation) = 0;
  virtual void run(const Embedding& operation) = 0;
  virtual void run(const EmbeddingBackward& operation) = 0;
  virtual void run(const EmbeddingBag& operation) = 0;
  virtual void run(const EmbeddingBagBackward& operation) = 0;
  virtual void run(const LayerNorm& operation) = 0;
  virtual void run(const LayerNormBackward& operation) = 0;
  virtual void run(const Attention& operation) = 0;
  virtual void run(const AttentionBackward& operation) = 0;
  virtual void run(const Gelu& operation) = 0;
  virtual void run(const GeluBackward& operation) = 0;
  virtual void run(const BatchNorm& operation) = 0;
  virtual void run(const BatchNormBackward& operation) = 0;
  virtual void run(const Activation& operation) = 0;
  virtual void run(const ActivationBackward& operation) = 0;
  virtual void run(const CrossEntropy& operation) = 0;
  virtual void run(const MeanSquaredError& operation) = 0;
  virtual void run(const Convert& operation) = 0;

  /// Runs the operations in order. Devices combine several into few launches.
  virtual void run(std::span<const AddSum> operations) = 0;
  virtual void run(std::span<const AdamW> operations) = 0;
  virtual void run(std::span<const Sgd> operations) = 0;

  void run(const AddSum& operation) { run(std::span(&operation, 1)); }
  void run(const AdamW& operation) { run(std::span(&operation, 1)); }
  void run(const Sgd& operation) { run(std::span(&operation, 1)); }
};

/// Returns the CPU, with OpenBLAS on `threads` threads, which is a process-wide setting.
std::unique_ptr<Compute> make_cpu_compute(int threads);

/// Returns the visible CUDA device with this index, usually the local rank; for shared devices, the
/// index modulo their number. Throws Error{Errc::usage} if this program was built without CUDA, or,
/// with the number of devices, if there is no such device.
std::unique_ptr<Compute> make_cuda_compute(int index, bool is_shared = false);

}  // namespace trainer
