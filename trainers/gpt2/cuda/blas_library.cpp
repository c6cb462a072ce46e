#include "trainers/gpt2/cuda/blas_library.hpp"

#include "trainers/gpt2/cuda/real_calls.hpp"

#include <string>

namespace trainer::cuda {

namespace {

BlasCalls calls_of(const ddprun::LoadedGpuLibrary& library) {
  BlasCalls calls{};
  library.find("cublasCreate_v2", calls.create);
  library.find("cublasDestroy_v2", calls.destroy);
  library.find("cublasSetStream_v2", calls.set_stream);
  library.find("cublasSetWorkspace_v2", calls.set_workspace);
  library.find("cublasGemmEx", calls.gemm);
  library.find("cublasGetStatusString", calls.status_string);
  return calls;
}

BlasCalls load() {
  BlasCalls calls{};
  const auto& library = blas_library();
  load_gpu_library(library, gpu_library_places(library),
                   [&calls](const auto& loaded) { calls = calls_of(loaded); });
  return calls;
}

}  // namespace

const ddprun::GpuLibrary& blas_library() {
  static const std::string kVersion = std::to_string(CUBLAS_VER_MAJOR);
  static const ddprun::GpuLibrary kLibrary{
      .title = "cuBLAS",
      .file = "libcublas.so." + kVersion,
      .variable = "DDPRUN_CUBLAS_LIBRARY",
      // Since CUDA 13 all libraries are in one folder.
      .package_folders = {"nvidia/cu" + kVersion + "/lib", "nvidia/cublas/lib"},
      .needs = {"libcublasLt.so." + kVersion},
      .failure = ddprun::Errc::cuda};
  return kLibrary;
}

const BlasCalls& blas_calls() {
  // If the initialisation throws, the next call tries again.
  static const BlasCalls kCalls = load();
  return kCalls;
}

}  // namespace trainer::cuda
