// Where the files of a run lie: LOG_DIR/RUN_ID_RANDOM/attempt_N/LOCAL_RANK/. Every attempt has its
// own folder, so a restart never overwrites what an earlier attempt wrote. Pure functions.
#pragma once

#include "launcher/plan/launch_plan.hpp"

#include <filesystem>

namespace ddprun {

/// The run's folder below `log_dir`.
std::filesystem::path run_folder(const std::filesystem::path& log_dir, const LaunchPlan& plan);

/// The folder of one worker in one attempt.
std::filesystem::path worker_folder(const std::filesystem::path& run_folder, int attempt,
                                    int local_rank);

// The files in a worker's folder.
inline constexpr const char* kStandardOutputFile = "stdout.log";
inline constexpr const char* kStandardErrorFile = "stderr.log";
inline constexpr const char* kErrorFile = "error.json";
inline constexpr const char* kStacksFile = "stacks.txt";
inline constexpr const char* kFlightsFile = "flights.json";

// The files in an attempt's folder, next to its workers'.
inline constexpr const char* kFilteredOutputFile = "filtered_stdout.log";
inline constexpr const char* kFilteredErrorFile = "filtered_stderr.log";

/// A run's folder name: the id with '/' and control characters replaced, cut to fit a file name,
/// then "_" and `random`.
std::string run_folder_name(const std::string& run_id, const std::string& random);

}  // namespace ddprun
