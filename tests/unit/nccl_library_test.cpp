// Where NCCL is looked for.
#include "worker_runtime/backends/nccl/nccl_library.hpp"

#include "tests/support/temporary_folder.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

using namespace ddprun;
using namespace ddprun::test;

namespace {

namespace fs = std::filesystem;

fs::path touch(const fs::path& file) {
  fs::create_directories(file.parent_path());
  std::ofstream(file) << "";
  return file;
}

/// Without those of this machine.
std::vector<std::string> candidates_in(const fs::path& folder, const nccl::SearchFacts& facts) {
  std::vector<std::string> found;
  for (const auto& candidate : nccl::nccl_candidates(facts)) {
    if (candidate.starts_with(folder.string())) found.push_back(candidate);
  }
  return found;
}

}  // namespace

TEST_SUITE("nccl library") {
  TEST_CASE("what was asked for is all that is tried") {
    CHECK(nccl::nccl_candidates({.wanted = "/opt/libnccl.so.2", .path = "/usr/bin"}) ==
          std::vector<std::string>{"/opt/libnccl.so.2"});
  }

  TEST_CASE("the loader is asked first") {
    CHECK(nccl::nccl_candidates({}).front() == "libnccl.so.2");
  }

  TEST_CASE("CUDA's folder comes before the packages of the Pythons in PATH, in its order") {
    const TemporaryFolder folder;
    const fs::path home = folder.path();
    const auto of_cuda = touch(home / "cuda/lib64/libnccl.so.2");
    const auto packages = "site-packages/nvidia/nccl/lib/libnccl.so.2";
    const auto newer = touch(home / "a/lib/python3.12" / packages);
    const auto older = touch(home / "a/lib/python3.11" / packages);
    const auto second = touch(home / "b/lib/python3.11" / packages);
    touch(home / "a/bin/python3");
    touch(home / "b/bin/python3");
    touch(home / "c/lib/python3.11" / packages);  // a Python that is not in PATH
    const std::string path = (home / "a/bin").string() + ":" + (home / "nowhere").string() +
                             "::" + (home / "b/bin").string();
    CHECK(candidates_in(home, {.cuda_home = home / "cuda", .path = path}) ==
          std::vector<std::string>{of_cuda, newer, older, second});
  }

  TEST_CASE("the packages of a virtual environment come before those of what it was made from") {
    const TemporaryFolder folder;
    const fs::path home = folder.path();
    const auto packages = "dist-packages/nvidia/nccl/lib/libnccl.so.2";
    const auto base = touch(home / "base/lib/python3.11" / packages);
    const auto python = touch(home / "base/bin/python3");
    const auto own = touch(home / "venv/lib/python3.11" / packages);
    fs::create_directories(home / "venv/bin");
    fs::create_symlink(python, home / "venv/bin/python3");
    CHECK(candidates_in(home, {.path = home / "venv/bin"}) == std::vector<std::string>{own, base});
  }
}
