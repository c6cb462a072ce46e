// The folder that holds a run's files, one below it for each attempt and rank
// (plan/log_layout.hpp).
#pragma once

#include "launcher/plan/launch_plan.hpp"
#include "rendezvous/base/unique_fd.hpp"

#include <filesystem>
#include <string>
#include <vector>

namespace ddprun {

class RunFolder {
 public:
  /// Without a log folder of the plan: creates a temporary folder, which is removed with this
  /// object. With one, which is kept: creates nothing yet, unless the log folder is a temporary
  /// one, too. Removes the temporary folders of earlier runs that could not remove them. Throws
  /// Error{Errc::system} naming the folder and what to do.
  explicit RunFolder(const LaunchPlan& plan);
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;

  /// Of a kept folder without any workers started: removes the empty files in it and the empty
  /// folders that this object has created.
  ~RunFolder();

  const std::filesystem::path& path() const { return path_; }

  /// True if the folder stays when the run is over.
  bool is_kept() const { return is_kept_; }

  /// Creates the folder of one worker in one attempt and returns it. Throws Error{Errc::system}
  /// naming the folder and what to do.
  std::filesystem::path make_worker_folder(int attempt, int local_rank);

  /// From now on a kept folder stays as it is.
  void note_workers_started() { have_workers_started_ = true; }

  /// Removes the attempt's folder unless it is to be kept: thousands of restarts must not fill the
  /// temporary folder, which may be in memory.
  void end_attempt(int attempt) const;

 private:
  void make_folders(const std::filesystem::path& path);
  std::filesystem::path make_temporary_folder();

  bool is_kept_;
  bool is_temporary_;  ///< in temporary_directory_
  bool have_workers_started_ = false;
  std::filesystem::path temporary_directory_;
  UniqueFd lock_;  ///< marks a temporary folder as in use
  std::filesystem::path path_;
  /// Folders created before workers have started, each behind the one that holds it.
  std::vector<std::filesystem::path> made_;
};

/// The message about a log folder that cannot be created.
std::string no_log_folder(const std::filesystem::path& folder, const std::string& problem);

}  // namespace ddprun
