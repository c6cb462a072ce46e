// Finds NVIDIA libraries on the machine on which a program runs, which may differ from the build
// machine. Libraries may come from CUDA's installer or from Python packages, like PyTorch's. Used
// for NCCL; programs can use it for cuBLAS or cuDNN. Thread-safe.
#pragma once

#include <ddprun/error.hpp>

#include <functional>
#include <string>
#include <vector>

namespace ddprun {

/// Description of a library to find.
struct GpuLibrary {
  std::string title;     ///< name in errors, such as "NCCL"
  std::string file;      ///< file name, such as "libnccl.so.2"
  std::string variable;  ///< environment variable with the file to use, such as DDPRUN_NCCL_LIBRARY
  /// Folders below Python's package folder, in order of preference, such as "nvidia/nccl/lib".
  std::vector<std::string> package_folders;
  /// Files in the same folder that must be loaded first.
  std::vector<std::string> needs = {};
  Errc failure = Errc::cuda;  ///< error code if the library is missing
};

/// Places to search.
struct GpuLibraryPlaces {
  std::string wanted;                 ///< requested file; excludes all other candidates
  std::string cuda_home;              ///< CUDA's folder; empty: unknown
  std::string path;                   ///< folders with the Pythons to search, in the format of PATH
  std::string system = "/usr/local";  ///< folder that contains CUDA's folders
};

/// Returns the places given by the environment: the library's variable, CUDA_HOME (or CUDA_PATH if
/// unset) and PATH.
GpuLibraryPlaces gpu_library_places(const GpuLibrary& library);

/// Returns the arguments for the loader, in order. Returns only the requested file, if any;
/// otherwise the file name, for the loader's search, then existing files in CUDA's folders and in
/// the packages of the Pythons in PATH. Reads folders but does not load libraries.
std::vector<std::string> gpu_library_candidates(const GpuLibrary& library,
                                                const GpuLibraryPlaces& places);

/// A library that stays loaded until the process ends.
class LoadedGpuLibrary {
 public:
  /// `handle`: result of dlopen().
  explicit LoadedGpuLibrary(void* handle) : handle_(handle) {}

  /// Sets `function` to the function `name`. Throws Error if it is missing.
  template <typename Function>
  void find(const char* name, Function& function) const {
    find_if_there(name, function);
    if (function == nullptr) throw Error(Errc::system, std::string("it has no function ") + name);
  }

  /// Sets `function` to the function `name`, or to null if an older version lacks it.
  template <typename Function>
  void find_if_there(const char* name, Function& function) const {
    function = reinterpret_cast<Function>(address_of(name));
  }

 private:
  void* address_of(const char* name) const;

  void* handle_;
};

/// Loads the first candidate that the loader and `take` accept; `take` looks up functions and
/// throws Error to reject. Throws Error with the library's code, all candidates and their problems.
void load_gpu_library(const GpuLibrary& library, const GpuLibraryPlaces& places,
                      const std::function<void(const LoadedGpuLibrary& loaded)>& take);

}  // namespace ddprun
