// Finds a library of NVIDIA's on the machine that a program runs on, which need not be the one it
// was built on, and which may have it from CUDA's installer or with a Python's packages, in which
// PyTorch brings its own. NCCL is found by it; programs find cuBLAS or cuDNN so. Any thread.
#pragma once

#include <ddprun/error.hpp>

#include <functional>
#include <string>
#include <vector>

namespace ddprun {

/// What is looked for.
struct GpuLibrary {
  std::string title;     ///< for errors: "NCCL"
  std::string file;      ///< "libnccl.so.2"
  std::string variable;  ///< of the environment: names the file to take, e.g. DDPRUN_NCCL_LIBRARY
  /// Its folders among a Python's packages, the first one preferred: "nvidia/nccl/lib".
  std::vector<std::string> package_folders;
  /// Files beside it that have to be loaded before it.
  std::vector<std::string> needs = {};
  Errc failure = Errc::cuda;  ///< what it is to have none
};

/// Where to look.
struct GpuLibraryPlaces {
  std::string wanted;                 ///< the file that was asked for; nothing else is tried then
  std::string cuda_home;              ///< CUDA's folder, if it is known
  std::string path;                   ///< folders of programs, as in PATH, for the Pythons there
  std::string system = "/usr/local";  ///< where CUDA's folders are
};

/// By the environment: the library's variable, CUDA_HOME or else CUDA_PATH, and PATH.
GpuLibraryPlaces gpu_library_places(const GpuLibrary& library);

/// What is handed to the loader, in this order: only what was asked for, if something was; else the
/// file's name, for the loader to find, and the files that exist in CUDA's folders and in the
/// packages of the Pythons in PATH. Reads folders, and loads nothing.
std::vector<std::string> gpu_library_candidates(const GpuLibrary& library,
                                                const GpuLibraryPlaces& places);

/// A library that stays loaded until the process ends.
class LoadedGpuLibrary {
 public:
  /// What dlopen() has returned.
  explicit LoadedGpuLibrary(void* handle) : handle_(handle) {}

  /// Throws Error if it has no such function.
  template <typename Function>
  void find(const char* name, Function& function) const {
    find_if_there(name, function);
    if (function == nullptr) throw Error(Errc::system, std::string("it has no function ") + name);
  }

  /// Null if it has no such function, as in an older version.
  template <typename Function>
  void find_if_there(const char* name, Function& function) const {
    function = reinterpret_cast<Function>(address_of(name));
  }

 private:
  void* address_of(const char* name) const;

  void* handle_;
};

/// Loads the first candidate that can be loaded and that `take`, which fetches functions, does not
/// refuse by an Error. Throws Error of the library's own code that says what was tried, and what
/// was wrong with each.
void load_gpu_library(const GpuLibrary& library, const GpuLibraryPlaces& places,
                      const std::function<void(const LoadedGpuLibrary& loaded)>& take);

}  // namespace ddprun
