#include "worker_runtime/backends/module/finding.hpp"

#include <dlfcn.h>

#include <filesystem>
#include <vector>

namespace ddprun::module {

namespace {

std::string last_problem() {
  const char* text = ::dlerror();
  return text == nullptr ? "it has no entry" : text;
}

/// Returns the folder of the program, as in a build folder, and that of installed libraries. The
/// loader then searches its default paths, starting with the program's RPATH.
std::vector<std::filesystem::path> own_folders() {
  std::error_code ignored;
  const auto folder = std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path();
  return {folder, folder.parent_path() / DDPRUN_LIBRARY_FOLDER};
}

std::string path_of(const std::string& file) {
  std::error_code ignored;
  for (const auto& folder : own_folders()) {
    if (std::filesystem::exists(folder / file, ignored)) return folder / file;
  }
  return file;
}

/// Returns the reason why a module cannot be loaded. `is_found`: the module exists, and it or one
/// of its libraries is unusable.
std::string why_not_loaded(bool is_found) {
  std::string reason = "its module cannot be loaded: " + last_problem();
  if (is_found) return reason;
  reason += " (looked in ";
  for (const auto& folder : own_folders()) reason += folder.string() + ", ";
  return reason + "where the program was linked to look, LD_LIBRARY_PATH, the system's folders)";
}

}  // namespace

std::variant<FoundEntry, std::string> find_entry(const std::string& name, const char* entry) {
  const std::string file = "libddprun_" + name + ".so";
  const std::string path = path_of(file);
  void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return why_not_loaded(path != file);
  void* function = ::dlsym(library, entry);
  if (function == nullptr) return path + ": " + last_problem();
  return FoundEntry{function, path};
}

std::string wrong_version(const std::string& path, std::uint32_t version, std::uint32_t needed) {
  return path + " is of version " + std::to_string(version) + ", and version " +
         std::to_string(needed) +
         " is needed: it was built or installed at another time than the program";
}

}  // namespace ddprun::module
