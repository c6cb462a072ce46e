#include "trainers/gpt2/tests/emulated_device.hpp"

// clang-format off: the emulation replaces nvcc's headers, so it precedes the kernels.
#include "trainers/gpt2/tests/wmma_emulation.hpp"
// clang-format on

#include "tests/support/cuda_emulation.hpp"
#include "tests/support/fake_capture.hpp"
#include "tests/support/fake_cuda.hpp"
#include "trainers/gpt2/cuda/kernel_table.hpp"

#include <atomic>
#include <cstring>
#include <utility>

namespace ddprun::test {

namespace {

using trainer::cuda::BlasCalls;
using trainer::cuda::KernelCalls;
using trainer::cuda::RuntimeCalls;

/// After all preceding work of the caller's streams, like on a device.
cudaError_t free_memory(void* memory) {
  fake_cuda().device_synchronize();
  return fake_cuda().free(memory);
}

cudaError_t allocate(void** memory, std::size_t bytes) {
  constexpr std::size_t kMemory = std::size_t{1} << 32U;
  return bytes > kMemory ? cudaErrorMemoryAllocation : fake_cuda().allocate(memory, bytes);
}

/// Values of an H200.
cudaError_t attribute(int* value, cudaDeviceAttr which, int) {
  *value = 0;
  if (which == cudaDevAttrComputeCapabilityMajor) *value = 9;
  if (which == cudaDevAttrMultiProcessorCount) *value = 132;
  if (which == cudaDevAttrClockRate) *value = 1'980'000;
  return cudaSuccess;
}

FakeGraph& graph_of(cudaGraph_t graph) {
  return *reinterpret_cast<FakeGraph*>(graph);
}

FakeGraph& graph_of(cudaGraphExec_t launched) {
  return *reinterpret_cast<FakeGraph*>(launched);
}

cudaError_t end(cudaStream_t stream, cudaGraph_t* graph) {
  FakeGraph captured;
  const cudaError_t error = end_capture(stream, captured);
  *graph = captured ? reinterpret_cast<cudaGraph_t>(new FakeGraph(std::move(captured))) : nullptr;
  return error;
}

template <typename Handle>
cudaError_t destroy_graph(Handle graph) {
  delete &graph_of(graph);
  return cudaSuccess;
}

const RuntimeCalls& runtime() {
  static const RuntimeCalls kCalls{
      .get_device_count = fake_cuda().get_device_count,
      .set_device = fake_cuda().set_device,
      .get_attribute = attribute,
      .device_name = [](int) { return std::string("emulated"); },
      .stream_create = fake_cuda().stream_create,
      .stream_destroy = fake_cuda().stream_destroy,
      .stream_synchronize = fake_cuda().stream_synchronize,
      .allocate = allocate,
      .free = free_memory,
      .copy_async = fake_cuda().copy_async,
      .set_async =
          [](void* memory, int value, std::size_t bytes, cudaStream_t stream) {
            launch_on(stream, [=] { std::memset(memory, value, bytes); });
            return cudaSuccess;
          },
      .error_string = fake_cuda().error_string,
      .begin_capture = begin_capture,
      .end_capture = end,
      .graph_destroy = destroy_graph<cudaGraph_t>,
      .graph_instantiate =
          [](cudaGraphExec_t* launched, cudaGraph_t graph) {
            *launched = reinterpret_cast<cudaGraphExec_t>(new FakeGraph(graph_of(graph)));
            return cudaSuccess;
          },
      .graph_launch =
          [](cudaGraphExec_t launched, cudaStream_t stream) {
            launch_graph(graph_of(launched), stream);
            return cudaSuccess;
          },
      .launched_destroy = destroy_graph<cudaGraphExec_t>};
  return kCalls;
}

struct EmulatedBlas {
  cudaStream_t stream = nullptr;
};

EmulatedBlas& blas_of(cublasHandle_t handle) {
  return *reinterpret_cast<EmulatedBlas*>(handle);
}

/// A matrix in column-major order.
struct Matrix {
  void* data;
  cudaDataType type;
  int stride;

  float at(int row, int column) const {
    const std::size_t index = static_cast<std::size_t>(row) +
                              static_cast<std::size_t>(column) * static_cast<std::size_t>(stride);
    return type == CUDA_R_16BF ? __bfloat162float(static_cast<__nv_bfloat16*>(data)[index])
                               : static_cast<float*>(data)[index];
  }
  void put(int row, int column, float value) const {
    const std::size_t index = static_cast<std::size_t>(row) +
                              static_cast<std::size_t>(column) * static_cast<std::size_t>(stride);
    if (type == CUDA_R_16BF) {
      static_cast<__nv_bfloat16*>(data)[index] = __float2bfloat16_rn(value);
    } else {
      static_cast<float*>(data)[index] = value;
    }
  }
};

cublasStatus_t gemm(cublasHandle_t handle, cublasOperation_t transpose_left,
                    cublasOperation_t transpose_right, int rows, int columns, int inner,
                    const void* scale, const void* left_data, cudaDataType left_type,
                    int left_stride, const void* right_data, cudaDataType right_type,
                    int right_stride, const void* keep, void* result_data, cudaDataType result_type,
                    int result_stride, cublasComputeType_t compute_type, cublasGemmAlgo_t) {
  if (compute_type != CUBLAS_COMPUTE_32F || left_type != right_type)
    return CUBLAS_STATUS_NOT_SUPPORTED;
  const Matrix left{const_cast<void*>(left_data), left_type, left_stride};
  const Matrix right{const_cast<void*>(right_data), right_type, right_stride};
  const Matrix result{result_data, result_type, result_stride};
  const float factor = *static_cast<const float*>(scale);
  const float kept = *static_cast<const float*>(keep);
  launch_on(blas_of(handle).stream, [=] {
    for (int column = 0; column < columns; ++column) {
      for (int row = 0; row < rows; ++row) {
        float sum = 0;
        for (int i = 0; i < inner; ++i) {
          sum += (transpose_left == CUBLAS_OP_T ? left.at(i, row) : left.at(row, i)) *
                 (transpose_right == CUBLAS_OP_T ? right.at(column, i) : right.at(i, column));
        }
        // With a factor of zero the previous value is not read: it may be a NaN.
        const float before = kept == 0 ? 0 : kept * result.at(row, column);
        result.put(row, column, factor * sum + before);
      }
    }
  });
  return CUBLAS_STATUS_SUCCESS;
}

const BlasCalls& blas() {
  static constexpr BlasCalls kCalls{
      .create =
          [](cublasHandle_t* handle) {
            *handle = reinterpret_cast<cublasHandle_t>(new EmulatedBlas);
            return CUBLAS_STATUS_SUCCESS;
          },
      .destroy =
          [](cublasHandle_t handle) {
            delete &blas_of(handle);
            return CUBLAS_STATUS_SUCCESS;
          },
      .set_stream =
          [](cublasHandle_t handle, cudaStream_t stream) {
            blas_of(handle).stream = stream;
            return CUBLAS_STATUS_SUCCESS;
          },
      .set_workspace =
          [](cublasHandle_t, void* memory, std::size_t) {
            return memory == nullptr ? CUBLAS_STATUS_INVALID_VALUE : CUBLAS_STATUS_SUCCESS;
          },
      .gemm = gemm,
      .status_string = [](cublasStatus_t) { return "an error of the emulation"; }};
  return kCalls;
}

std::atomic<bool> runs_backwards = false;
std::atomic<int> launches = 0;

struct LaunchEmulated {
  cudaStream_t stream;

  template <typename... Parameters, typename... Arguments>
  cudaError_t operator()(void (*kernel)(Parameters...), dim3 blocks, dim3 threads,
                         const Arguments&... arguments) const {
    ++launches;
    const KernelShape shape{.grid = blocks, .block = threads, .backwards = runs_backwards};
    launch_on(stream, [=] { run_kernel(shape, kernel, arguments...); });
    return cudaSuccess;
  }
};

}  // namespace

int emulated_launches() {
  return launches;
}

BackwardsKernels::BackwardsKernels() {
  runs_backwards = true;
}

BackwardsKernels::~BackwardsKernels() {
  runs_backwards = false;
}

const trainer::cuda::Calls& emulated_calls() {
  static const KernelCalls kKernels = trainer::cuda::make_kernel_table<LaunchEmulated>();
  static const trainer::cuda::Calls kCalls{&runtime(), &blas(), &kKernels};
  return kCalls;
}

}  // namespace ddprun::test
