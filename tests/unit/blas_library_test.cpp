#include "trainers/compute/cuda/blas_library.hpp"

#include "tests/support/temporary_folder.hpp"

#include <cublas_v2.h>
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace fs = std::filesystem;

using trainer::cuda::blas_candidates;

namespace {

const std::string kVersion = std::to_string(CUBLAS_VER_MAJOR);
const std::string kName = "libcublas.so." + kVersion;

std::string put_file(const fs::path& file) {
  fs::create_directories(file.parent_path());
  std::ofstream(file) << "x";
  return file;
}

}  // namespace

TEST_SUITE("cuBLAS library") {
  TEST_CASE("a library that is named is the only one that is tried") {
    CHECK(blas_candidates({.wanted = "/some/libcublas.so"}) ==
          std::vector<std::string>{"/some/libcublas.so"});
  }

  TEST_CASE("the loader's is tried first, then CUDA's folders, then the Pythons' packages") {
    const ddprun::test::TemporaryFolder folder;
    const fs::path root = folder.path();
    const auto home = put_file(root / "home/lib64" / kName);
    const auto older = put_file(root / "local/cuda-12.9/lib64" / kName);
    const auto newer = put_file(root / "local/cuda-13.0/lib64" / kName);
    put_file(root / "python/bin/python3");
    const auto packages = root / "python/lib/python3.12/site-packages/nvidia";
    const auto wheel = put_file(packages / "cublas/lib" / kName);
    const auto joint = put_file(packages / ("cu" + kVersion) / "lib" / kName);
    CHECK(blas_candidates({.cuda_home = root / "home",
                           .path = "/nowhere:" + (root / "python/bin").string(),
                           .system = root / "local"}) ==
          std::vector<std::string>{kName, home, newer, older, joint, wheel});
    CHECK(blas_candidates({.system = root / "empty"}) == std::vector<std::string>{kName});
  }
}
