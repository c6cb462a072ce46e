#include "worker_runtime/backends/nccl/nccl_library.hpp"

#include <ddprun/error.hpp>

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <system_error>

namespace ddprun::nccl {

namespace {

namespace fs = std::filesystem;

constexpr const char* kName = "libnccl.so.2";
// 2.14 is the first whose communicators can be made without blocking; 12 the format of this number.
constexpr int kOldestVersion = 21400;

std::vector<fs::path> entries_of(const fs::path& folder, const std::string& prefix) {
  std::vector<fs::path> found;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    if (entry.path().filename().string().starts_with(prefix)) found.push_back(entry.path());
  }
  std::sort(found.begin(), found.end(), std::greater<>());
  return found;
}

void add_if_there(std::vector<std::string>& candidates, const fs::path& file) {
  std::error_code ignored;
  if (!fs::exists(file, ignored)) return;
  if (std::find(candidates.begin(), candidates.end(), file) == candidates.end())
    candidates.push_back(file);
}

void add_of_cuda(std::vector<std::string>& candidates, const std::string& cuda_home) {
  std::vector<fs::path> homes;
  if (!cuda_home.empty()) homes.emplace_back(cuda_home);
  homes.emplace_back("/usr/local/cuda");
  for (const auto& versioned : entries_of("/usr/local", "cuda-")) homes.push_back(versioned);
  for (const auto& home : homes) {
    for (const char* folder : {"lib64", "lib"}) add_if_there(candidates, home / folder / kName);
  }
}

/// A Python belongs to the folder above its own, with its links followed: bin/python3 of a virtual
/// environment leads elsewhere, and both may have packages.
void add_of_python(std::vector<std::string>& candidates, const fs::path& python) {
  std::error_code ignored;
  std::vector<fs::path> prefixes = {python.parent_path().parent_path()};
  const auto resolved = fs::canonical(python, ignored);
  if (!resolved.empty()) prefixes.push_back(resolved.parent_path().parent_path());
  for (const auto& prefix : prefixes) {
    for (const auto& version : entries_of(prefix / "lib", "python3")) {
      for (const char* packages : {"site-packages", "dist-packages"})
        add_if_there(candidates, version / packages / "nvidia/nccl/lib" / kName);
    }
  }
}

template <typename Function>
void find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  if (function == nullptr) throw Error(Errc::nccl, std::string("it has no function ") + name);
}

/// Null if this version does not have it yet.
template <typename Function>
void find_if_there(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
}

NcclCalls calls_of(void* library) {
  NcclCalls calls{};
  find(library, "ncclGetVersion", calls.get_version);
  int version = 0;
  if (calls.get_version(&version) != ncclSuccess || version < kOldestVersion) {
    throw Error(Errc::nccl, "its version is " + std::to_string(version) + " (at least " +
                                std::to_string(kOldestVersion) + " is needed)");
  }
  find(library, "ncclGetUniqueId", calls.get_unique_id);
  find(library, "ncclCommInitRankConfig", calls.comm_init_rank_config);
  find(library, "ncclCommGetAsyncError", calls.comm_get_async_error);
  find(library, "ncclCommFinalize", calls.comm_finalize);
  find(library, "ncclCommDestroy", calls.comm_destroy);
  find(library, "ncclCommAbort", calls.comm_abort);
  find_if_there(library, "ncclCommRevoke", calls.comm_revoke);
  find_if_there(library, "ncclMemAlloc", calls.mem_alloc);
  find_if_there(library, "ncclMemFree", calls.mem_free);
  find_if_there(library, "ncclCommRegister", calls.comm_register);
  find_if_there(library, "ncclCommDeregister", calls.comm_deregister);
  find(library, "ncclGetErrorString", calls.get_error_string);
  find(library, "ncclGetLastError", calls.get_last_error);
  find(library, "ncclAllReduce", calls.all_reduce);
  find(library, "ncclBroadcast", calls.broadcast);
  find(library, "ncclReduce", calls.reduce);
  find(library, "ncclAllGather", calls.all_gather);
  find(library, "ncclReduceScatter", calls.reduce_scatter);
  find(library, "ncclSend", calls.send);
  find(library, "ncclRecv", calls.recv);
  find(library, "ncclGroupStart", calls.group_start);
  find(library, "ncclGroupEnd", calls.group_end);
  return calls;
}

std::string value_of(const char* variable) {
  const char* value = std::getenv(variable);
  return value == nullptr ? std::string() : value;
}

}  // namespace

std::vector<std::string> nccl_candidates(const SearchFacts& facts) {
  if (!facts.wanted.empty()) return {facts.wanted};
  std::vector<std::string> candidates = {kName};
  add_of_cuda(candidates, facts.cuda_home);
  std::istringstream folders(facts.path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    std::error_code ignored;
    const auto python = fs::path(folder) / "python3";
    if (fs::exists(python, ignored)) add_of_python(candidates, python);
  }
  return candidates;
}

NcclCalls load_nccl() {
  const std::string home = value_of("CUDA_HOME");
  const auto candidates = nccl_candidates({.wanted = value_of("DDPRUN_NCCL_LIBRARY"),
                                           .cuda_home = home.empty() ? value_of("CUDA_PATH") : home,
                                           .path = value_of("PATH")});
  std::string problems;
  for (const auto& candidate : candidates) {
    void* library = ::dlopen(candidate.c_str(), RTLD_NOW | RTLD_LOCAL);
    std::string problem = library == nullptr ? ::dlerror() : "";
    try {
      if (library != nullptr) return calls_of(library);
    } catch (const Error& error) {
      problem = candidate + ": " + error.what();
    }
    problems += (problems.empty() ? "" : "; ") + problem;
  }
  throw Error(Errc::nccl, "NCCL cannot be loaded (" + problems +
                              "); DDPRUN_NCCL_LIBRARY names another " + kName);
}

}  // namespace ddprun::nccl
