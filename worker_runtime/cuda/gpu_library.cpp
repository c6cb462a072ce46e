#include <ddprun/gpu_library.hpp>

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <sstream>
#include <system_error>

namespace ddprun {

namespace {

namespace fs = std::filesystem;

/// Returns the entries by version, newest first: "python3.12" before "python3.9".
std::vector<fs::path> entries_of(const fs::path& folder, const std::string& prefix) {
  std::vector<fs::path> found;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    if (entry.path().filename().string().starts_with(prefix)) found.push_back(entry.path());
  }
  std::sort(found.begin(), found.end(), [](const fs::path& left, const fs::path& right) {
    return ::strverscmp(left.c_str(), right.c_str()) > 0;
  });
  return found;
}

std::vector<fs::path> folders_of_cuda(const GpuLibraryPlaces& places) {
  std::vector<fs::path> homes;
  if (!places.cuda_home.empty()) homes.emplace_back(places.cuda_home);
  homes.push_back(fs::path(places.system) / "cuda");
  for (const auto& versioned : entries_of(places.system, "cuda-")) homes.push_back(versioned);
  std::vector<fs::path> folders;
  for (const auto& home : homes) folders.insert(folders.end(), {home / "lib64", home / "lib"});
  return folders;
}

/// Returns the package folders of a Python, by its path and by the file that the path links to.
/// They differ in a virtual environment, and both may have packages.
std::vector<fs::path> package_folders(const fs::path& python) {
  std::error_code ignored;
  std::vector<fs::path> folders;
  const auto resolved = fs::canonical(python, ignored);
  if (resolved.empty()) return folders;
  for (const auto& file : {python, resolved}) {
    for (const auto& version : entries_of(file.parent_path().parent_path() / "lib", "python3"))
      folders.insert(folders.end(), {version / "site-packages", version / "dist-packages"});
  }
  return folders;
}

std::vector<fs::path> folders_of_pythons(const GpuLibrary& library, const std::string& path) {
  std::vector<fs::path> folders;
  std::istringstream parts(path);
  for (std::string part; std::getline(parts, part, ':');) {
    for (const auto& packages : package_folders(fs::path(part) / "python3")) {
      for (const auto& folder : library.package_folders) folders.push_back(packages / folder);
    }
  }
  return folders;
}

std::string value_of(const std::string& variable) {
  const char* value = std::getenv(variable.c_str());
  return value == nullptr ? std::string() : value;
}

/// Returns null and sets `problem` on failure. Loads the libraries that it depends on first, so
/// that the loader does not search for them.
void* load(const GpuLibrary& library, const std::string& file, std::string& problem) {
  const fs::path folder = fs::path(file).parent_path();
  if (!folder.empty()) {
    for (const auto& need : library.needs) ::dlopen((folder / need).c_str(), RTLD_NOW | RTLD_LOCAL);
  }
  void* const loaded = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (loaded == nullptr) problem = ::dlerror();
  return loaded;
}

}  // namespace

GpuLibraryPlaces gpu_library_places(const GpuLibrary& library) {
  const std::string home = value_of("CUDA_HOME");
  return {.wanted = value_of(library.variable),
          .cuda_home = home.empty() ? value_of("CUDA_PATH") : home,
          .path = value_of("PATH")};
}

std::vector<std::string> gpu_library_candidates(const GpuLibrary& library,
                                                const GpuLibraryPlaces& places) {
  if (!places.wanted.empty()) return {places.wanted};
  std::vector<std::string> candidates = {library.file};
  auto folders = folders_of_cuda(places);
  const auto of_pythons = folders_of_pythons(library, places.path);
  folders.insert(folders.end(), of_pythons.begin(), of_pythons.end());
  for (const auto& folder : folders) {
    const std::string file = folder / library.file;
    std::error_code ignored;
    const bool is_new = std::find(candidates.begin(), candidates.end(), file) == candidates.end();
    if (is_new && fs::exists(file, ignored)) candidates.push_back(file);
  }
  return candidates;
}

void* LoadedGpuLibrary::address_of(const char* name) const {
  return ::dlsym(handle_, name);
}

void load_gpu_library(const GpuLibrary& library, const GpuLibraryPlaces& places,
                      const std::function<void(const LoadedGpuLibrary& loaded)>& take) {
  std::string problems;
  for (const auto& candidate : gpu_library_candidates(library, places)) {
    std::string problem;
    try {
      if (void* const loaded = load(library, candidate, problem))
        return take(LoadedGpuLibrary(loaded));
    } catch (const Error& error) {
      problem = candidate + ": " + error.what();
    }
    problems += (problems.empty() ? "" : "; ") + problem;
  }
  throw Error(library.failure, library.title + " cannot be loaded (" + problems + "); " +
                                   library.variable + " names another " + library.file);
}

}  // namespace ddprun
