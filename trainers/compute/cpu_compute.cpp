#include "trainers/compute/compute.hpp"
#include "trainers/compute/cpu_kernels.hpp"
#include "trainers/compute/operation_checks.hpp"
#include <ddprun/error.hpp>

#include <cblas.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>
#include <new>
#include <string>
#include <utility>

namespace trainer {

namespace {

using ddprun::DataType;
using ddprun::Errc;
using ddprun::Error;

/// Runs the work again: recording has no benefit on the CPU.
class Repetition : public Recording {
 public:
  explicit Repetition(std::function<void()> work) : work_(std::move(work)) {}
  void launch() override { work_(); }

 private:
  std::function<void()> work_;
};

class CpuCompute : public Compute {
 public:
  explicit CpuCompute(int threads) : threads_(threads) { ::openblas_set_num_threads(threads); }

  std::string name() const override {
    return "CPU, " + std::to_string(threads_) + (threads_ == 1 ? " thread" : " threads");
  }
  ddprun::Device device() const override { return {}; }
  bool supports(DataType type) const override {
    return type == DataType::float32 || type == DataType::float64;
  }
  double peak_flops(DataType type) override;
  void* stream() const override { return nullptr; }

  Array allocate(std::size_t elements, DataType type) override;
  void copy_in(std::span<const std::byte> from, const Buffer& to) override;
  void copy_out(const Buffer& from, std::span<std::byte> to) override;
  void zero(const Buffer& buffer) override { std::memset(buffer.data, 0, buffer.bytes()); }
  void wait() override {}
  std::unique_ptr<Recording> record(const std::function<void()>& work) override {
    return std::make_unique<Repetition>(work);
  }

  void run(const MatrixProduct& o) override { carry_out(o, o.left.type); }
  void run(const SumOfRows& o) override { carry_out(o, o.values.type); }
  void run(const Embedding& o) override { carry_out(o, o.output.type); }
  void run(const EmbeddingBackward& o) override { carry_out(o, o.output_gradient.type); }
  void run(const EmbeddingBag& o) override { carry_out(o, o.output.type); }
  void run(const EmbeddingBagBackward& o) override { carry_out(o, o.output_gradient.type); }
  void run(const LayerNorm& o) override { carry_out(o, o.input.type); }
  void run(const LayerNormBackward& o) override { carry_out(o, o.input.type); }
  void run(const Attention& o) override { carry_out(o, o.projections.type); }
  void run(const AttentionBackward& o) override { carry_out(o, o.projections.type); }
  void run(const Gelu& o) override { carry_out(o, o.input.type); }
  void run(const GeluBackward& o) override { carry_out(o, o.input.type); }
  void run(const BatchNorm& o) override { carry_out(o, o.input.type); }
  void run(const BatchNormBackward& o) override { carry_out(o, o.input.type); }
  void run(const Activation& o) override { carry_out(o, o.input.type); }
  void run(const ActivationBackward& o) override { carry_out(o, o.output.type); }
  void run(const CrossEntropy& o) override { carry_out(o, o.logits.type); }
  void run(const MeanSquaredError& o) override { carry_out(o, o.output.type); }
  void run(std::span<const AddSum> all) override { carry_out_all(all); }
  void run(std::span<const AdamW> all) override { carry_out_all(all); }
  void run(std::span<const Sgd> all) override { carry_out_all(all); }
  void run(const Convert& o) override {
    refuse_unsupported(o.output.type);
    carry_out(o, o.input.type);
  }

 private:
  void refuse_unsupported(DataType type) const {
    if (supports(type)) return;
    throw Error(Errc::usage,
                std::string("the CPU computes in float32 and float64, not in ") + to_string(type));
  }

  template <typename Operation>
  void carry_out(const Operation& operation, DataType type) const {
    check(operation, device());
    refuse_unsupported(type);
    if (type == DataType::float32) {
      cpu::compute<float>(operation);
    } else {
      cpu::compute<double>(operation);
    }
  }

  template <typename Operation>
  void carry_out_all(std::span<const Operation> operations) const {
    for (const Operation& o : operations) carry_out(o, o.values.type);
  }

  int threads_;
  std::pair<DataType, double> peak_ = {DataType::float32, 0};  ///< last measurement
};

/// Measures a matrix product in the cache, since the speed of the cores is not known otherwise.
double CpuCompute::peak_flops(DataType type) {
  if (!supports(type)) return 0;
  if (peak_.first == type && peak_.second > 0) return peak_.second;
  constexpr std::size_t kSize = 512;
  constexpr int kRounds = 6;  // the first one warms up
  const Array left = allocate(kSize * kSize, type);
  const Array right = allocate(kSize * kSize, type);
  const Array result = allocate(kSize * kSize, type);
  double best = 0;
  for (int round = 0; round < kRounds; ++round) {
    const auto start = std::chrono::steady_clock::now();
    run(MatrixProduct{.left = left.buffer,
                      .right = right.buffer,
                      .result = result.buffer,
                      .rows = kSize,
                      .columns = kSize,
                      .inner = kSize});
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    best = std::max(best, 2.0 * kSize * kSize * kSize / seconds.count());
  }
  peak_ = {type, best};
  return best;
}

Array CpuCompute::allocate(std::size_t elements, DataType type) {
  constexpr std::align_val_t kAlignment{64};  // a cache line, and the widest vector
  const std::size_t size = ddprun::size_of(type);
  void* memory = nullptr;
  if (elements <= std::numeric_limits<std::size_t>::max() / size) {
    memory = ::operator new(std::max<std::size_t>(elements * size, 1), kAlignment, std::nothrow);
  }
  if (memory == nullptr) {
    throw Error(Errc::system, "there is not enough memory for " + std::to_string(elements) +
                                  " elements of type " + to_string(type));
  }
  std::shared_ptr<void> hold(memory, [](void* address) { ::operator delete(address, kAlignment); });
  std::memset(memory, 0, elements * size);
  return {{memory, elements, type, device()}, std::move(hold)};
}

void CpuCompute::copy_in(std::span<const std::byte> from, const Buffer& to) {
  refuse_other_size("copying in", from.size(), to);
  if (!from.empty()) std::memcpy(to.data, from.data(), from.size());
}

void CpuCompute::copy_out(const Buffer& from, std::span<std::byte> to) {
  refuse_other_size("copying out", to.size(), from);
  if (!to.empty()) std::memcpy(to.data(), from.data, to.size());
}

}  // namespace

std::unique_ptr<Compute> make_cpu_compute(int threads) {
  return std::make_unique<CpuCompute>(threads);
}

}  // namespace trainer
