// Candidates for a library of NVIDIA's, and errors if none can be used.
#include "tests/support/library_files.hpp"
#include "tests/support/temporary_folder.hpp"
#include <ddprun/gpu_library.hpp>

#include <doctest/doctest.h>

#include <functional>
#include <string>
#include <vector>

namespace gpu_library_test {

using namespace ddprun;
using namespace ddprun::test;

namespace {

using Files = std::vector<std::string>;

const GpuLibrary kLibrary{.title = "libother",
                          .file = "libother.so.1",
                          .variable = "OTHER_LIBRARY",
                          .package_folders = {"nvidia/all/lib", "nvidia/other/lib"},
                          .failure = Errc::nccl};

/// The C library in place of a library.
const GpuLibrary kPresent{.title = "libc", .file = "libc.so.6", .variable = "OTHER_LIBRARY"};

std::string failure_of(const GpuLibrary& library, const GpuLibraryPlaces& places,
                       const std::function<void(const LoadedGpuLibrary&)>& take) {
  try {
    load_gpu_library(library, places, take);
  } catch (const Error& error) {
    return std::string(to_string(error.code())) + ": " + error.what();
  }
  return "none";
}

void take_nothing(const LoadedGpuLibrary& /*library*/) {}

}  // namespace

TEST_SUITE("GPU library") {
  TEST_CASE("GPU library: an explicitly requested file is the only candidate") {
    CHECK(gpu_library_candidates(kLibrary, {.wanted = "/opt/libother.so", .path = "/usr/bin"}) ==
          Files{"/opt/libother.so"});
  }

  TEST_CASE("GPU library: the search order is loader then CUDA_HOME then newest CUDA first") {
    const TemporaryFolder folder;
    const fs::path root = folder.path();
    const auto home = put_file(root / "home/lib/libother.so.1");
    const auto older = put_file(root / "local/cuda-9.2/lib64/libother.so.1");
    const auto newer = put_file(root / "local/cuda-13.0/lib64/libother.so.1");
    const auto linked = put_file(root / "local/cuda/lib64/libother.so.1");
    put_file(root / "local/cuda-11.8/lib64/libmore.so.1");
    CHECK(
        gpu_library_candidates(kLibrary, {.cuda_home = root / "home", .system = root / "local"}) ==
        Files{"libother.so.1", home, linked, newer, older});
    CHECK(gpu_library_candidates(kLibrary, {.system = root / "empty"}) == Files{"libother.so.1"});
  }

  TEST_CASE("GPU library: packages of Pythons in PATH are searched last") {
    const TemporaryFolder folder;
    const fs::path root = folder.path();
    const auto of_cuda = put_file(root / "cuda/lib64/libother.so.1");
    const auto packages = "site-packages/nvidia/other/lib/libother.so.1";
    const auto older = put_file(root / "a/lib/python3.9" / packages);
    const auto newer = put_file(root / "a/lib/python3.12" / packages);
    const auto joint =
        put_file(root / "a/lib/python3.9/site-packages/nvidia/all/lib/libother.so.1");
    const auto second = put_file(root / "b/lib/python3.11" / packages);
    put_file(root / "a/bin/python3");
    put_file(root / "b/bin/python3");
    put_file(root / "c/lib/python3.11" / packages);  // a Python that is not in PATH
    const std::string path = (root / "a/bin").string() + ":" + (root / "nowhere").string() +
                             "::" + (root / "b/bin").string();
    CHECK(gpu_library_candidates(
              kLibrary, {.cuda_home = root / "cuda", .path = path, .system = root / "empty"}) ==
          Files{"libother.so.1", of_cuda, newer, joint, older, second});
  }

  TEST_CASE("GPU library: packages of a virtual environment precede those of its base") {
    const TemporaryFolder folder;
    const fs::path root = folder.path();
    const auto packages = "dist-packages/nvidia/other/lib/libother.so.1";
    const auto base = put_file(root / "base/lib/python3.11" / packages);
    const auto python = put_file(root / "base/bin/python3");
    const auto own = put_file(root / "venv/lib/python3.11" / packages);
    fs::create_directories(root / "venv/bin");
    fs::create_symlink(python, root / "venv/bin/python3");
    CHECK(gpu_library_candidates(kLibrary, {.path = root / "venv/bin", .system = root / "empty"}) ==
          Files{"libother.so.1", own, base});
  }

  TEST_CASE("GPU library: an optional function that the library lacks is null") {
    int (*absolute)(int) = nullptr;
    int (*other)(int) = nullptr;
    load_gpu_library(kPresent, {}, [&](const LoadedGpuLibrary& library) {
      library.find("abs", absolute);
      library.find_if_there("no_such_function", other);
    });
    CHECK(absolute(-3) == 3);
    const bool has_other = other != nullptr;
    CHECK_FALSE(has_other);
  }

  TEST_CASE("GPU library: all candidates are tried and all their errors are reported") {
    const TemporaryFolder folder;
    const fs::path root = folder.path();
    const auto broken = put_file(root / "home/lib64/libc.so.6");
    const auto failure = failure_of(
        kPresent, {.cuda_home = root / "home", .system = root / "empty"}, [](const auto& library) {
          void (*function)() = nullptr;
          library.find("no_such_function", function);
        });
    CHECK(failure.starts_with(
        "cuda: libc cannot be loaded (libc.so.6: it has no function no_such_function; " + broken +
        ": "));
    CHECK(failure.ends_with("); OTHER_LIBRARY names another libc.so.6"));
    CHECK(failure_of(kPresent, {.wanted = broken}, take_nothing) != "none");
    CHECK(failure_of(kPresent, {.cuda_home = root / "home"}, take_nothing) == "none");
    CHECK(failure_of(kLibrary, {.wanted = "/no/lib.so"}, take_nothing).starts_with("nccl: "));
  }

  TEST_CASE("GPU library: search locations are read from the environment") {
    const GpuLibrary library{.title = "", .file = "", .variable = "PATH", .package_folders = {}};
    const auto places = gpu_library_places(library);
    CHECK_FALSE(places.path.empty());
    CHECK(places.wanted == places.path);
  }
}

}  // namespace gpu_library_test
