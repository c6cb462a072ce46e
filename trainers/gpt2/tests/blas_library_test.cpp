// The search for cuBLAS.
#include "trainers/gpt2/cuda/blas_library.hpp"

#include "tests/support/library_files.hpp"
#include "tests/support/temporary_folder.hpp"

#include <cublas_v2.h>
#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace blas_library_test {

using namespace ddprun::test;

TEST_SUITE("cuBLAS library") {
  TEST_CASE("cuBLAS: the header's version is found in both kinds of packages") {
    const TemporaryFolder folder;
    const fs::path root = folder.path();
    const std::string version = std::to_string(CUBLAS_VER_MAJOR);
    const std::string name = "libcublas.so." + version;
    put_file(root / "bin/python3");
    const auto packages = root / "lib/python3.12/site-packages/nvidia";
    const auto own = put_file(packages / "cublas/lib" / name);
    const auto joint = put_file(packages / ("cu" + version) / "lib" / name);
    CHECK(gpu_library_candidates(trainer::cuda::blas_library(),
                                 {.path = root / "bin", .system = root / "empty"}) ==
          std::vector<std::string>{name, joint, own});
  }
}

}  // namespace blas_library_test
