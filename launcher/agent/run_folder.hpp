// The folder with a run's files, with a subfolder for each attempt and rank (plan/log_layout.hpp).
// An open descriptor refers to the folder once it is created, so other users cannot redirect
// accesses by changing its path.
#pragma once

#include "launcher/plan/launch_plan.hpp"
#include "rendezvous/base/held_path.hpp"

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace ddprun {

class RunFolder {
 public:
  /// If the plan has no log folder, creates a temporary folder that the destructor removes.
  /// Otherwise the folder is kept; it is created now only if the log folder is temporary. Removes
  /// stale temporary folders of earlier runs. Throws Error{Errc::system} with the folder and a
  /// remedy.
  explicit RunFolder(const LaunchPlan& plan);

  /// Describes a kept folder inside `outer`, which outlives this object. Creates nothing yet.
  RunFolder(RunFolder& outer, const std::string& name);

  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;

  /// Cleans up a kept folder if no workers have started or no output goes to files: removes empty
  /// files and subfolders, then the folder if it is empty. If no workers have started, also removes
  /// the empty parent folders that this object has created.
  ~RunFolder();

  const std::filesystem::path& path() const { return path_; }

  /// Returns true if the folder remains after the run.
  bool is_kept() const { return is_kept_; }

  /// Returns the path of a file in the folder; empty if the folder does not exist yet.
  HeldPath file(const std::string& name) const;

  /// Returns the descriptor of a temporary folder, valid during the lifetime of this object.
  int descriptor() const { return folder_->get(); }

  /// Creates and returns the folder of one worker in one attempt. Creates the run's folder if it
  /// does not exist, accessible to the user only. Throws Error{Errc::system} with the folder and a
  /// remedy.
  HeldPath make_worker_folder(int attempt, int local_rank);

  /// Disables the cleanup of a kept folder, unless no output goes to files.
  void note_workers_started();

  /// Removes the attempt's folder unless it is kept. Otherwise, thousands of restarts would fill
  /// the temporary folder, which may be in memory.
  void end_attempt(int attempt);

 private:
  using Folder = std::shared_ptr<const UniqueFd>;

  /// A folder that this object has created.
  struct Made {
    Folder parent;
    std::string name;
  };

  int make_in_attempt(int attempt, const std::string& name);
  void make();
  void make_temporary();
  bool try_to_make_temporary();
  void hold(UniqueFd folder);
  Folder open_parent();
  Folder open_log_folder(const std::filesystem::path& path);
  bool is_temporary_directory(const std::filesystem::path& path) const;
  void note_made(const Folder& parent, const std::string& name);
  [[noreturn]] void throw_not_made(const std::filesystem::path& folder, int error) const;

  RunFolder* outer_ = nullptr;
  bool is_kept_;
  bool is_temporary_;  ///< the folder is in temporary_directory_
  bool removes_empty_folders_;
  bool have_workers_started_ = false;
  std::filesystem::path temporary_directory_;
  UniqueFd lock_;  ///< marks a temporary folder as in use
  std::filesystem::path path_;
  Folder log_folder_;      ///< of a temporary log folder, until the run's folder exists
  Folder folder_;          ///< null before its creation
  Folder attempt_folder_;  ///< folder of attempt_; null: none
  int attempt_ = 0;
  std::vector<Made> made_;  ///< folders made before the workers start; parents first
};

/// Returns the message about a log folder that cannot be created.
std::string no_log_folder(const std::filesystem::path& folder, const std::string& problem);

}  // namespace ddprun
