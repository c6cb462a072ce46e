// The search for NCCL.
#include "worker_runtime/backends/nccl/nccl_library.hpp"

#include "tests/support/library_files.hpp"
#include "tests/support/temporary_folder.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace nccl_library_test {

using namespace ddprun;
using namespace ddprun::test;

TEST_SUITE("NCCL library") {
  TEST_CASE("NCCL library: the library is found in CUDA's folder and in PyTorch's package") {
    const TemporaryFolder folder;
    const fs::path root = folder.path();
    const auto of_cuda = put_file(root / "cuda/lib/libnccl.so.2");
    put_file(root / "bin/python3");
    const auto packages = root / "lib/python3.12/site-packages";
    const auto of_package = put_file(packages / "nvidia/nccl/lib/libnccl.so.2");
    CHECK(gpu_library_candidates(
              nccl::nccl_library(),
              {.cuda_home = root / "cuda", .path = root / "bin", .system = root / "empty"}) ==
          std::vector<std::string>{"libnccl.so.2", of_cuda, of_package});
  }
}

}  // namespace nccl_library_test
