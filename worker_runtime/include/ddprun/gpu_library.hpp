// Finds NVIDIA libraries on the machine that a program runs on, which may differ from the build
// machine: installed by CUDA's installer, or in the packages of a Python, as with PyTorch. Used for
// NCCL; programs can use it for cuBLAS or cuDNN. Any thread.
#pragma once

#include <ddprun/error.hpp>

#include <functional>
#include <string>
#include <vector>

namespace ddprun {

/// A library to find.
struct GpuLibrary {
  std::string title;     ///< name in errors: "NCCL"
  std::string file;      ///< "libnccl.so.2"
  std::string variable;  ///< environment variable with the file to use, such as DDPRUN_NCCL_LIBRARY
  /// Its folders in Python's package folder, in order of preference: "nvidia/nccl/lib".
  std::vector<std::string> package_folders;
  /// Files in the same folder to be loaded first.
  std::vector<std::string> needs = {};
  Errc failure = Errc::cuda;  ///< error code if it is missing
};

/// Where to search.
struct GpuLibraryPlaces {
  std::string wanted;     ///< requested file; excludes all other candidates
  std::string cuda_home;  ///< CUDA's folder, if known
  std::string path;       ///< folders of programs, as in PATH, with the Pythons to search
  std::string system = "/usr/local";  ///< folder that contains CUDA's folders
};

/// Returns the places given by the environment: the library's variable, CUDA_HOME or else
/// CUDA_PATH, and PATH.
GpuLibraryPlaces gpu_library_places(const GpuLibrary& library);

/// Returns the arguments for the loader, in order: only the requested file, if any; otherwise the
/// file's name, for the loader's search, and existing files in CUDA's folders and in the packages
/// of the Pythons in PATH. Reads folders, and loads nothing.
std::vector<std::string> gpu_library_candidates(const GpuLibrary& library,
                                                const GpuLibraryPlaces& places);

/// A library that stays loaded until the process ends.
class LoadedGpuLibrary {
 public:
  /// `handle`: result of dlopen().
  explicit LoadedGpuLibrary(void* handle) : handle_(handle) {}

  /// Throws Error if the function is missing.
  template <typename Function>
  void find(const char* name, Function& function) const {
    find_if_there(name, function);
    if (function == nullptr) throw Error(Errc::system, std::string("it has no function ") + name);
  }

  /// Returns null if the function is missing, as in an older version.
  template <typename Function>
  void find_if_there(const char* name, Function& function) const {
    function = reinterpret_cast<Function>(address_of(name));
  }

 private:
  void* address_of(const char* name) const;

  void* handle_;
};

/// Loads the first candidate that can be loaded and that `take`, which looks up functions, accepts
/// without throwing Error. Throws Error with the library's code, all candidates and their problems.
void load_gpu_library(const GpuLibrary& library, const GpuLibraryPlaces& places,
                      const std::function<void(const LoadedGpuLibrary& loaded)>& take);

}  // namespace ddprun
