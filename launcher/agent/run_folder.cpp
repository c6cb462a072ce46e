#include "launcher/agent/run_folder.hpp"

#include "launcher/plan/log_layout.hpp"
#include <ddprun/error.hpp>

#include <stdlib.h>

#include <cerrno>
#include <system_error>

namespace ddprun {

namespace fs = std::filesystem;

namespace {

fs::path make_folder(const fs::path& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) throw_system_error("folder " + path.string() + " cannot be made", error.value());
  return path;
}

fs::path make_log_folder(const fs::path& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (!error) return path;
  throw Error(Errc::usage,
              "--log_dir: folder " + path.string() + " cannot be made: " + error.message());
}

fs::path make_temporary_folder() {
  std::error_code error;
  const auto folder = fs::temp_directory_path(error);
  if (error) throw_system_error("there is no temporary folder (see TMPDIR)", error.value());
  std::string name = (folder / "ddprun-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) {
    throw_system_error("folder " + name + " cannot be made", errno);
  }
  return name;
}

}  // namespace

RunFolder::RunFolder(const LaunchPlan& plan)
    : path_(plan.log_dir ? make_log_folder(run_folder(*plan.log_dir, plan))
                         : make_temporary_folder()),
      is_kept_(plan.log_dir.has_value()) {}

RunFolder::~RunFolder() {
  if (is_kept_) return;
  std::error_code error;
  // An empty one goes without a descriptor, of which there may be none left.
  if (!fs::remove(path_, error)) fs::remove_all(path_, error);
}

fs::path RunFolder::make_worker_folder(int attempt, int local_rank) const {
  return make_folder(worker_folder(path_, attempt, local_rank));
}

void RunFolder::end_attempt(int attempt) const {
  std::error_code ignored;
  if (!is_kept_) fs::remove_all(worker_folder(path_, attempt, 0).parent_path(), ignored);
}

}  // namespace ddprun
