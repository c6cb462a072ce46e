#include "tests/support/emulated_kernels.hpp"

#include "tests/support/cuda_emulation.hpp"
#include "tests/support/fake_cuda.hpp"
#include "worker_runtime/cuda/kernels/convert_launches.hpp"

namespace ddprun::test {

namespace {

cudaError_t convert(std::span<const cuda::Piece> pieces, DataType from, DataType to, double scale,
                    cudaStream_t stream) {
  return cuda::convert_pieces(
      pieces, from, to, scale,
      [stream](auto* kernel, const cuda::ConvertBatch& batch, const auto& each) {
        launch_on(stream, [=] {
          run_kernel({.grid = {batch.tiles, 1, 1}, .block = {cuda::kConvertThreads, 1, 1}}, kernel,
                     batch, each);
        });
        return cudaSuccess;
      });
}

}  // namespace

const cuda::KernelCalls& emulated_kernels() {
  static constexpr cuda::KernelCalls kCalls{.convert = convert};
  return kCalls;
}

}  // namespace ddprun::test
