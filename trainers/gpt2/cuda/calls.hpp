// Function tables of CUDA's runtime, cuBLAS and our kernels: the real ones, or those of a test
// without a GPU.
#pragma once

#include "trainers/compute/operations.hpp"

#include <cublas_v2.h>
#include <cuda_runtime_api.h>

#include <span>
#include <string>
#include <tuple>

namespace trainer::cuda {

struct RuntimeCalls {
  cudaError_t (*get_device_count)(int* count);
  cudaError_t (*set_device)(int device);
  cudaError_t (*get_attribute)(int* value, cudaDeviceAttr attribute, int device);
  std::string (*device_name)(int device);
  cudaError_t (*stream_create)(cudaStream_t* stream, unsigned int flags);
  cudaError_t (*stream_destroy)(cudaStream_t stream);
  cudaError_t (*stream_synchronize)(cudaStream_t stream);
  cudaError_t (*allocate)(void** memory, std::size_t bytes);
  cudaError_t (*free)(void* memory);
  cudaError_t (*copy_async)(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream);
  cudaError_t (*set_async)(void* memory, int value, std::size_t bytes, cudaStream_t stream);
  const char* (*error_string)(cudaError_t error);
  // Captures of a stream into a graph.
  cudaError_t (*begin_capture)(cudaStream_t stream, cudaStreamCaptureMode mode);
  cudaError_t (*end_capture)(cudaStream_t stream, cudaGraph_t* graph);
  cudaError_t (*graph_destroy)(cudaGraph_t graph);
  cudaError_t (*graph_instantiate)(cudaGraphExec_t* launched, cudaGraph_t graph);
  cudaError_t (*graph_launch)(cudaGraphExec_t launched, cudaStream_t stream);
  cudaError_t (*launched_destroy)(cudaGraphExec_t launched);
};

struct BlasCalls {
  cublasStatus_t (*create)(cublasHandle_t* handle);
  cublasStatus_t (*destroy)(cublasHandle_t handle);
  cublasStatus_t (*set_stream)(cublasHandle_t handle, cudaStream_t stream);
  cublasStatus_t (*set_workspace)(cublasHandle_t handle, void* memory, std::size_t bytes);
  cublasStatus_t (*gemm)(cublasHandle_t handle, cublasOperation_t transpose_left,
                         cublasOperation_t transpose_right, int rows, int columns, int inner,
                         const void* scale, const void* left, cudaDataType left_type,
                         int left_stride, const void* right, cudaDataType right_type,
                         int right_stride, const void* keep, void* result, cudaDataType result_type,
                         int result_stride, cublasComputeType_t compute_type,
                         cublasGemmAlgo_t algorithm);
  const char* (*status_string)(cublasStatus_t status);
};

/// Stream of a kernel, and workspace_bytes(operation) bytes that it may use.
struct Place {
  cudaStream_t stream = nullptr;
  void* workspace = nullptr;
};

template <typename Operation>
using Kernel = cudaError_t (*)(const Operation& operation, const Place& place);

/// Functions that launch the operation on `place.stream`. For a matrix product, they copy the bias
/// to each row of the result before cuBLAS runs.
using KernelCalls =
    std::tuple<Kernel<MatrixProduct>, Kernel<SumOfRows>, Kernel<Embedding>,
               Kernel<EmbeddingBackward>, Kernel<EmbeddingBag>, Kernel<EmbeddingBagBackward>,
               Kernel<LayerNorm>, Kernel<LayerNormBackward>, Kernel<Attention>,
               Kernel<AttentionBackward>, Kernel<Gelu>, Kernel<GeluBackward>, Kernel<BatchNorm>,
               Kernel<BatchNormBackward>, Kernel<Activation>, Kernel<ActivationBackward>,
               Kernel<CrossEntropy>, Kernel<MeanSquaredError>, Kernel<std::span<const AddSum>>,
               Kernel<std::span<const AdamW>>, Kernel<std::span<const Sgd>>, Kernel<Convert>>;

struct Calls {
  const RuntimeCalls* runtime = nullptr;
  const BlasCalls* blas = nullptr;
  const KernelCalls* kernels = nullptr;
};

}  // namespace trainer::cuda
