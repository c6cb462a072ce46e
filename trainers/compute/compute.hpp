// What a trainer computes with: memory of a device and the operations of operations.hpp on it. A
// program written against it runs on the CPU and on a GPU, and never looks into the memory itself.
// One thread at a time.
//
// Operations are done in the order in which they were asked for. They may still be under way when
// the call returns: a failure may be thrown by a later call. copy_out() and wait() wait; nothing
// else does, so a training step that reads nothing back never stops the device.
//
// The same operations on the same values give the same bits, always: what is added up is added in
// an order that the shapes alone decide (no atomic additions of floats), so that a resumed training
// goes on as if undisturbed and all workers stay equal.
//
// Every function throws Error{Errc::usage} for arrays that are too small or of a type that does not
// fit, naming the operation and the array, before it does anything.
#pragma once

#include "trainers/compute/operations.hpp"

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>

namespace trainer {

/// Memory of a device, freed with the last copy. Must not outlive its Compute.
struct Array {
  Buffer buffer;
  std::shared_ptr<void> hold;
};

/// Operations that can be asked for together, again and again.
class Recording {
 public:
  virtual ~Recording() = default;

  /// Asks for all of them, in their order. They find in the arrays what is there by then.
  virtual void launch() = 0;
};

class Compute {
 public:
  virtual ~Compute() = default;

  /// "CPU, 1 thread", "CUDA device 0, NVIDIA H200".
  virtual std::string name() const = 0;

  /// Where its arrays are.
  virtual ddprun::Device device() const = 0;

  /// Whether activations can have this type. Every implementation has float32; float64 is for
  /// checking gradients and only the CPU's, bfloat16 is for speed and only CUDA's.
  virtual bool supports(ddprun::DataType type) const = 0;

  /// Floating-point operations in a second that matrix products of this type can come to at most,
  /// for the model FLOPs utilisation; 0 if nobody knows. May take some milliseconds when first
  /// called.
  virtual double peak_flops(ddprun::DataType type) = 0;

  /// The cudaStream_t in which it works, to be told to the process group and the reducer; null on
  /// the CPU.
  virtual void* stream() const = 0;

  /// Zeros. Aligned to at least 64 bytes. Throws Error{Errc::system or cuda} saying how much was
  /// asked for if there is not enough memory.
  virtual Array allocate(std::size_t elements, ddprun::DataType type) = 0;

  /// From the program's memory to the device's: to.bytes() bytes. `from` may be changed as soon as
  /// it returns.
  virtual void copy_in(std::span<const std::byte> from, const Buffer& to) = 0;

  /// From the device's memory to the program's, when all that was asked for before is done. Waits.
  virtual void copy_out(const Buffer& from, std::span<std::byte> to) = 0;

  /// Makes all bits zero.
  virtual void zero(const Buffer& buffer) = 0;

  /// Until everything that was asked for is done. Throws what it failed with.
  virtual void wait() = 0;

  /// What `work` asks for, without doing it; on a GPU as a CUDA graph, which is launched at the
  /// price of one operation. `work` asks for the same whenever it is called, has been called
  /// before, and neither copies from or to the program's memory nor waits; collectives on stream()
  /// may be part of it. What it refers to outlives the recording, which does not outlive this.
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

  /// One after another, where a device does many of a kind for the price of few.
  virtual void run(std::span<const AddSum> operations) = 0;
  virtual void run(std::span<const AdamW> operations) = 0;
  virtual void run(std::span<const Sgd> operations) = 0;

  void run(const AddSum& operation) { run(std::span(&operation, 1)); }
  void run(const AdamW& operation) { run(std::span(&operation, 1)); }
  void run(const Sgd& operation) { run(std::span(&operation, 1)); }
};

/// The CPU, with OpenBLAS on so many threads, which is a setting of the whole process.
std::unique_ptr<Compute> make_cpu_compute(int threads);

/// The CUDA device with this index among those that are visible, usually the local rank; where
/// workers share devices, the index modulo their number. Throws Error{Errc::usage} if this program
/// was built without CUDA or there is no such device, saying how many there are.
std::unique_ptr<Compute> make_cuda_compute(int index, bool is_shared = false);

}  // namespace trainer
