// The folder that holds a run's files, one below it for each attempt and rank
// (plan/log_layout.hpp).
#pragma once

#include "launcher/plan/launch_plan.hpp"
#include "rendezvous/base/unique_fd.hpp"

#include <filesystem>

namespace ddprun {

class RunFolder {
 public:
  /// Makes the run's folder in the plan's log folder, which stays; without a log folder a temporary
  /// one, which goes with this object. Removes the temporary folders of earlier runs that could not
  /// remove them. Throws Error{Errc::system} naming the folder.
  explicit RunFolder(const LaunchPlan& plan);
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;
  ~RunFolder();

  const std::filesystem::path& path() const { return path_; }

  /// True if the folder stays when the run is over.
  bool is_kept() const { return is_kept_; }

  /// Makes the folder of one worker in one attempt and returns it.
  std::filesystem::path make_worker_folder(int attempt, int local_rank) const;

  /// Removes the attempt's folder unless it is to be kept: thousands of restarts must not fill the
  /// temporary folder, which may be in memory.
  void end_attempt(int attempt) const;

 private:
  bool is_kept_;
  UniqueFd lock_;  ///< marks a temporary folder as in use
  std::filesystem::path path_;
};

}  // namespace ddprun
