#include "trainers/gpt2/cuda/cuda_compute.hpp"

#include "trainers/compute/operation_checks.hpp"
#include "trainers/gpt2/cuda/device_objects.hpp"
#include "trainers/gpt2/cuda/graph.hpp"
#include "trainers/gpt2/cuda/workspace.hpp"

#include <algorithm>
#include <limits>
#include <optional>
#include <vector>

namespace trainer::cuda {

namespace {

using ddprun::DataType;
using ddprun::Errc;
using ddprun::Error;

/// Maximum size of host copies kept until the device has read them: tokens of a step, not a model.
constexpr std::size_t kKeptBytesMax = std::size_t{4} << 20U;

/// Maximum head size of the attention kernels.
constexpr std::size_t kHeadSizeMax = 128;

int checked_device(const RuntimeCalls& calls, int index) {
  int count = 0;
  check(calls, calls.get_device_count(&count), "cudaGetDeviceCount");
  if (index < 0 || index >= count) {
    throw Error(Errc::usage, "there is no CUDA device " + std::to_string(index) + ": visible are " +
                                 std::to_string(count));
  }
  check(calls, calls.set_device(index), "cudaSetDevice");
  return index;
}

int as_int(std::size_t value) {
  if (value > static_cast<std::size_t>(std::numeric_limits<int>::max())) {
    throw Error(Errc::usage,
                "matrix product: a side of " + std::to_string(value) + ", at most 2147483647");
  }
  return static_cast<int>(value);
}

cudaDataType blas_type(DataType type) {
  return type == DataType::bfloat16 ? CUDA_R_16BF : CUDA_R_32F;
}

class CudaCompute : public Compute {
 public:
  CudaCompute(const Calls& calls, int index)
      : calls_(calls),
        runtime_(*calls.runtime),
        index_(checked_device(runtime_, index)),
        stream_(runtime_),
        blas_(calls, stream_),
        workspace_(runtime_, stream_) {}

  std::string name() const override {
    return "CUDA device " + std::to_string(index_) + ", " + runtime_.device_name(index_);
  }
  ddprun::Device device() const override { return {ddprun::Device::Kind::cuda, index_}; }
  bool supports(DataType type) const override {
    return type == DataType::float32 || type == DataType::bfloat16;
  }
  double peak_flops(DataType type) override;
  void* stream() const override { return stream_.get(); }

  Array allocate(std::size_t elements, DataType type) override;
  void copy_in(std::span<const std::byte> from, const Buffer& to) override;
  void copy_out(const Buffer& from, std::span<std::byte> to) override;
  void zero(const Buffer& buffer) override;
  void wait() override;
  std::unique_ptr<Recording> record(const std::function<void()>& work) override;

  void run(const MatrixProduct& o) override;
  void run(const SumOfRows& o) override { carry_out(o, o.values.type, "sum of rows"); }
  void run(const Embedding& o) override { carry_out(o, o.output.type, "embedding"); }
  void run(const EmbeddingBackward& o) override {
    carry_out(o, o.output_gradient.type, "embedding backward");
  }
  void run(const EmbeddingBag& o) override { carry_out(o, o.output.type, "embedding bag"); }
  void run(const EmbeddingBagBackward& o) override {
    carry_out(o, o.output_gradient.type, "embedding bag backward");
  }
  void run(const LayerNorm& o) override { carry_out(o, o.input.type, "layer norm"); }
  void run(const LayerNormBackward& o) override {
    carry_out(o, o.input.type, "layer norm backward");
  }
  void run(const Attention& o) override {
    refuse_wide(o.head_size);
    carry_out(o, o.projections.type, "attention");
  }
  void run(const AttentionBackward& o) override {
    refuse_wide(o.head_size);
    carry_out(o, o.projections.type, "attention backward");
  }
  void run(const Gelu& o) override { carry_out(o, o.input.type, "GELU"); }
  void run(const GeluBackward& o) override { carry_out(o, o.input.type, "GELU backward"); }
  void run(const BatchNorm& o) override { carry_out(o, o.input.type, "batch norm"); }
  void run(const BatchNormBackward& o) override {
    carry_out(o, o.input.type, "batch norm backward");
  }
  void run(const Activation& o) override { carry_out(o, o.input.type, "activation"); }
  void run(const ActivationBackward& o) override {
    carry_out(o, o.output.type, "activation backward");
  }
  void run(const CrossEntropy& o) override { carry_out(o, o.logits.type, "cross-entropy"); }
  void run(const MeanSquaredError& o) override {
    carry_out(o, o.output.type, "mean squared error");
  }
  void run(std::span<const AddSum> all) override { carry_out_all(all, "sum"); }
  void run(std::span<const AdamW> all) override { carry_out_all(all, "AdamW"); }
  void run(std::span<const Sgd> all) override { carry_out_all(all, "SGD"); }
  void run(const Convert& o) override {
    refuse_unsupported(o.output.type);
    carry_out(o, o.input.type, "conversion");
  }

 private:
  void refuse_unsupported(DataType type) const {
    if (supports(type)) return;
    throw Error(Errc::usage, std::string("CUDA devices compute in float32 and bfloat16, not in ") +
                                 to_string(type));
  }

  /// A graph would keep the host address and read it at each launch.
  void refuse_recording(const char* what) const {
    if (capture_) throw Error(Errc::usage, std::string(what) + " cannot be recorded");
  }

  static void refuse_wide(std::size_t head_size) {
    if (head_size <= kHeadSizeMax) return;
    throw Error(Errc::usage, "attention: heads of " + std::to_string(head_size) +
                                 " items, at most " + std::to_string(kHeadSizeMax));
  }

  template <typename Operation>
  void carry_out(const Operation& operation, DataType type, const char* what) {
    trainer::check(operation, device());
    refuse_unsupported(type);
    start(operation, what);
  }

  template <typename Operation>
  void carry_out_all(std::span<const Operation> operations, const char* what) {
    for (const Operation& o : operations) {
      trainer::check(o, device());
      refuse_unsupported(o.values.type);
    }
    start(operations, what);
  }

  template <typename Operation>
  void start(const Operation& operation, const char* what) {
    set_device();
    const Place place{.stream = stream_.get(),
                      .workspace = workspace_.at_least(workspace_bytes(operation))};
    const auto kernel = std::get<Kernel<Operation>>(*calls_.kernels);
    check(runtime_, kernel(operation, place), what);
  }

  /// CUDA's current device is per thread.
  void set_device() const { check(runtime_, runtime_.set_device(index_), "cudaSetDevice"); }

  int attribute(cudaDeviceAttr which) const {
    int value = 0;
    check(runtime_, runtime_.get_attribute(&value, which, index_), "cudaDeviceGetAttribute");
    return value;
  }

  const Calls calls_;
  const RuntimeCalls& runtime_;
  const int index_;
  const Stream stream_;
  const BlasHandle blas_;
  Workspace workspace_;
  std::optional<Capture> capture_;            ///< while recording
  std::vector<std::vector<std::byte>> kept_;  ///< host copies that the stream may not have read
  std::size_t kept_bytes_ = 0;
};

double CudaCompute::peak_flops(DataType type) {
  if (!supports(type)) return 0;
  return cuda::peak_flops(type == DataType::bfloat16, attribute(cudaDevAttrComputeCapabilityMajor),
                          attribute(cudaDevAttrComputeCapabilityMinor),
                          attribute(cudaDevAttrMultiProcessorCount),
                          attribute(cudaDevAttrClockRate));
}

Array CudaCompute::allocate(std::size_t elements, DataType type) {
  set_device();
  const std::size_t size = ddprun::size_of(type);
  void* memory = nullptr;
  cudaError_t error = cudaErrorMemoryAllocation;
  if (elements <= std::numeric_limits<std::size_t>::max() / size)
    error = runtime_.allocate(&memory, std::max<std::size_t>(elements * size, 1));
  if (error != cudaSuccess) {
    throw Error(Errc::cuda, "no memory on CUDA device " + std::to_string(index_) + " for " +
                                std::to_string(elements) + " elements of type " + to_string(type) +
                                ": " + runtime_.error_string(error));
  }
  Array array{{memory, elements, type, device()},
              {memory, [free = runtime_.free](void* address) { free(address); }}};
  zero(array.buffer);
  return array;
}

void CudaCompute::copy_in(std::span<const std::byte> from, const Buffer& to) {
  refuse_recording("copying in");
  refuse_other_size("copying in", from.size(), to);
  if (from.empty()) return;
  set_device();
  // CUDA may read the source after the call returns, even from pageable memory.
  const bool is_kept = from.size() <= kKeptBytesMax - kept_bytes_;
  if (is_kept) {
    from = kept_.emplace_back(from.begin(), from.end());
    kept_bytes_ += from.size();
  }
  check(
      runtime_,
      runtime_.copy_async(to.data, from.data(), from.size(), cudaMemcpyHostToDevice, stream_.get()),
      "cudaMemcpyAsync to the device");
  if (!is_kept) wait();
}

void CudaCompute::wait() {
  stream_.wait();
  kept_.clear();
  kept_bytes_ = 0;
}

void CudaCompute::copy_out(const Buffer& from, std::span<std::byte> to) {
  refuse_recording("copying out");
  refuse_other_size("copying out", to.size(), from);
  if (to.empty()) return;
  set_device();
  check(runtime_,
        runtime_.copy_async(to.data(), from.data, to.size(), cudaMemcpyDeviceToHost, stream_.get()),
        "cudaMemcpyAsync from the device");
  wait();
}

std::unique_ptr<Recording> CudaCompute::record(const std::function<void()>& work) {
  refuse_recording("a recording");
  set_device();
  capture_.emplace(runtime_, stream_);
  try {
    work();
    auto graph = std::make_unique<Graph>(runtime_, stream_, capture_->end(), workspace_.hold());
    capture_.reset();
    return graph;
  } catch (...) {
    capture_.reset();
    throw;
  }
}

void CudaCompute::zero(const Buffer& buffer) {
  if (buffer.elements == 0) return;
  set_device();
  check(runtime_, runtime_.set_async(buffer.data, 0, buffer.bytes(), stream_.get()),
        "cudaMemsetAsync");
}

/// cuBLAS has column-major matrices: the result's transpose is right's times left's. The bias is
/// copied to the result first and accumulated; it has the result's type, so nothing is rounded
/// twice.
void CudaCompute::run(const MatrixProduct& o) {
  carry_out(o, o.left.type, "matrix product");
  if (o.rows == 0 || o.columns == 0) return;
  const float scale = 1;
  const float keep = o.adds || o.bias.data != nullptr ? 1.0F : 0.0F;
  const auto operation = [](bool is_transposed) {
    return is_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
  };
  const cublasStatus_t status = calls_.blas->gemm(
      blas_.get(), operation(o.right_is_transposed), operation(o.left_is_transposed),
      as_int(o.columns), as_int(o.rows), as_int(o.inner), &scale, o.right.data,
      blas_type(o.right.type), as_int(o.right_is_transposed ? o.inner : o.columns), o.left.data,
      blas_type(o.left.type), as_int(o.left_is_transposed ? o.rows : o.inner), &keep, o.result.data,
      blas_type(o.result.type), as_int(o.columns), CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
  check(*calls_.blas, status, "cublasGemmEx");
}

}  // namespace

std::unique_ptr<Compute> make_compute(const Calls& calls, int index) {
  return std::make_unique<CudaCompute>(calls, index);
}

}  // namespace trainer::cuda
