// The folder that holds a run's files, one below it for each attempt and rank
// (plan/log_layout.hpp). It is held by a descriptor from its creation on: nothing that a user does
// to its path leads to another folder.
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
  /// Without a log folder of the plan: creates a temporary folder, which is removed with this
  /// object. With one, which is kept: creates nothing yet, unless the log folder is a temporary
  /// one, too. Removes the temporary folders of earlier runs that could not remove them. Throws
  /// Error{Errc::system} naming the folder and what to do.
  explicit RunFolder(const LaunchPlan& plan);

  /// A kept folder in that of `outer`, which outlives this object. Creates nothing yet.
  RunFolder(RunFolder& outer, const std::string& name);

  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;

  /// Of a kept folder, if no workers have started or no output goes to files: removes the empty
  /// files and folders in it and, if nothing is left, the folder. Without any workers started, also
  /// the empty folders above it that this object has created.
  ~RunFolder();

  const std::filesystem::path& path() const { return path_; }

  /// True if the folder stays when the run is over.
  bool is_kept() const { return is_kept_; }

  /// A file in the folder; an empty path before the folder has been created.
  HeldPath file(const std::string& name) const;

  /// Of a temporary folder, for as long as this object lives.
  int descriptor() const { return folder_->get(); }

  /// Creates the folder of one worker in one attempt and returns it. The run's folder is created if
  /// it does not exist, for the user alone. Throws Error{Errc::system} naming the folder and what
  /// to do.
  HeldPath make_worker_folder(int attempt, int local_rank);

  /// From now on a kept folder stays as it is, unless no output goes to files.
  void note_workers_started();

  /// Removes the attempt's folder unless it is to be kept: thousands of restarts must not fill the
  /// temporary folder, which may be in memory.
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
  bool is_temporary_;  ///< in temporary_directory_
  bool removes_empty_folders_;
  bool have_workers_started_ = false;
  std::filesystem::path temporary_directory_;
  UniqueFd lock_;  ///< marks a temporary folder as in use
  std::filesystem::path path_;
  Folder log_folder_;      ///< from the creation of a temporary one to that of the run's in it
  Folder folder_;          ///< null before its creation
  Folder attempt_folder_;  ///< of attempt_; null: none
  int attempt_ = 0;
  std::vector<Made> made_;  ///< before workers have started, each after the one that holds it
};

/// The message about a log folder that cannot be created.
std::string no_log_folder(const std::filesystem::path& folder, const std::string& problem);

}  // namespace ddprun
