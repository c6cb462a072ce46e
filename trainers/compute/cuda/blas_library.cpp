#include "trainers/compute/cuda/blas_library.hpp"

#include "trainers/compute/cuda/real_calls.hpp"
#include <ddprun/error.hpp>

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <sstream>
#include <system_error>

namespace trainer::cuda {

namespace {

namespace fs = std::filesystem;

using ddprun::Errc;
using ddprun::Error;

/// Of the version whose header this was compiled with: it has the same types and calls.
const std::string kVersion = std::to_string(CUBLAS_VER_MAJOR);
const std::string kName = "libcublas.so." + kVersion;
/// What it is built upon, beside it. The loader takes for it what is there already.
const std::string kBaseName = "libcublasLt.so." + kVersion;

std::vector<fs::path> entries_of(const fs::path& folder, const std::string& prefix) {
  std::vector<fs::path> found;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    if (entry.path().filename().string().starts_with(prefix)) found.push_back(entry.path());
  }
  std::sort(found.begin(), found.end(), std::greater<>());
  return found;
}

/// A Python belongs to the folder above its own, with its links followed: bin/python3 of a virtual
/// environment leads elsewhere, and both may have packages.
std::vector<fs::path> package_folders(const fs::path& python) {
  std::error_code ignored;
  std::vector<fs::path> folders;
  if (!fs::exists(python, ignored)) return folders;
  for (const auto& file : {python, fs::canonical(python, ignored)}) {
    for (const auto& version : entries_of(file.parent_path().parent_path() / "lib", "python3")) {
      for (const char* packages : {"site-packages", "dist-packages"}) {
        folders.push_back(version / packages / "nvidia" / ("cu" + kVersion) / "lib");
        folders.push_back(version / packages / "nvidia/cublas/lib");
      }
    }
  }
  return folders;
}

std::vector<fs::path> folders_of(const BlasFacts& facts) {
  std::vector<fs::path> folders;
  if (!facts.cuda_home.empty()) folders.push_back(fs::path(facts.cuda_home) / "lib64");
  folders.push_back(fs::path(facts.system) / "cuda/lib64");
  for (const auto& home : entries_of(facts.system, "cuda-")) folders.push_back(home / "lib64");
  std::istringstream path(facts.path);
  for (std::string folder; std::getline(path, folder, ':');) {
    const auto found = package_folders(fs::path(folder) / "python3");
    folders.insert(folders.end(), found.begin(), found.end());
  }
  return folders;
}

template <typename Function>
void find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  if (function == nullptr) throw Error(Errc::cuda, std::string("it has no function ") + name);
}

BlasCalls calls_of(void* library) {
  BlasCalls calls{};
  find(library, "cublasCreate_v2", calls.create);
  find(library, "cublasDestroy_v2", calls.destroy);
  find(library, "cublasSetStream_v2", calls.set_stream);
  find(library, "cublasGemmEx", calls.gemm);
  find(library, "cublasGetStatusString", calls.status_string);
  return calls;
}

std::string value_of(const char* variable) {
  const char* value = std::getenv(variable);
  return value == nullptr ? std::string() : value;
}

BlasCalls load() {
  const std::string home = value_of("CUDA_HOME");
  std::string problems;
  for (const auto& candidate : blas_candidates({.wanted = value_of("DDPRUN_CUBLAS_LIBRARY"),
                               .cuda_home = home.empty() ? value_of("CUDA_PATH") : home,
                               .path = value_of("PATH")})) {
    const fs::path folder = fs::path(candidate).parent_path();
    if (!folder.empty()) ::dlopen((folder / kBaseName).c_str(), RTLD_NOW | RTLD_LOCAL);
    void* library = ::dlopen(candidate.c_str(), RTLD_NOW | RTLD_LOCAL);
    std::string problem = library == nullptr ? ::dlerror() : "";
    try {
      if (library != nullptr) return calls_of(library);
    } catch (const Error& error) {
      problem = candidate + ": " + error.what();
    }
    problems += (problems.empty() ? "" : "; ") + problem;
  }
  throw Error(Errc::cuda, "cuBLAS cannot be loaded (" + problems +
                              "); DDPRUN_CUBLAS_LIBRARY names another " + kName);
}

}  // namespace

std::vector<std::string> blas_candidates(const BlasFacts& facts) {
  if (!facts.wanted.empty()) return {facts.wanted};
  std::vector<std::string> candidates = {kName};
  for (const auto& folder : folders_of(facts)) {
    const std::string file = folder / kName;
    std::error_code ignored;
    const bool is_new = std::find(candidates.begin(), candidates.end(), file) == candidates.end();
    if (is_new && fs::exists(file, ignored)) candidates.push_back(file);
  }
  return candidates;
}

const BlasCalls& blas_calls() {
  // Thrown out of its making, a static is made anew by who asks next.
  static const BlasCalls kCalls = load();
  return kCalls;
}

}  // namespace trainer::cuda
