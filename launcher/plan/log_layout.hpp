// Paths of a run's files: LOG_DIR/RUN_ID_RANDOM/attempt_N/LOCAL_RANK/. Each attempt has its own
// folder, so that a restart does not overwrite files of an earlier attempt. Pure functions.
#pragma once

#include "launcher/plan/launch_plan.hpp"

#include <filesystem>

namespace ddprun {

/// Returns the run's folder below `log_dir`.
std::filesystem::path run_folder(const std::filesystem::path& log_dir, const LaunchPlan& plan);

/// Returns the folder of one worker in one attempt.
std::filesystem::path worker_folder(const std::filesystem::path& run_folder, int attempt,
                                    int local_rank);

// Files in a worker's folder.
inline constexpr const char* kStandardOutputFile = "stdout.log";
inline constexpr const char* kStandardErrorFile = "stderr.log";
inline constexpr const char* kErrorFile = "error.json";
inline constexpr const char* kStacksFile = "stacks.txt";
inline constexpr const char* kFlightsFile = "flights.json";

// Files in an attempt's folder, next to the workers' folders.
inline constexpr const char* kFilteredOutputFile = "filtered_stdout.log";
inline constexpr const char* kFilteredErrorFile = "filtered_stderr.log";

/// Returns the name of a run's folder: the ID, with '/' and control characters replaced and
/// shortened to fit into a file name, then "_" and `random`.
std::string run_folder_name(const std::string& run_id, const std::string& random);

}  // namespace ddprun
