// Writes the collectives and gradient buckets of a worker to a file in Chrome's trace format, for
// chrome://tracing or Perfetto. Times are microseconds of the monotonic clock, so that files of
// workers of one machine can be merged.
#pragma once

#include <ddprun/process_group.hpp>
#include <ddprun/step_timeline.hpp>

#include <nlohmann/json_fwd.hpp>

#include <filesystem>
#include <fstream>
#include <functional>
#include <mutex>

namespace trainer {

class CollectiveTrace {
 public:
  /// Rank 0 writes `path` in attempt 0. If that is "trace.json", rank 3 writes "trace.rank3.json",
  /// and in attempt 1 "trace.rank3.attempt1.json". An empty path disables writing. Throws
  /// Error{Errc::usage} if the file cannot be opened.
  CollectiveTrace(const std::filesystem::path& path, int rank, int attempt);

  /// Returns a function for GroupOptions::on_collective; null if writing is disabled. This object
  /// must outlive the group.
  std::function<void(const ddprun::CollectiveRecord&)> recorder();

  /// Writes the buckets of a step in a separate row. Thread-safe.
  void write(const ddprun::StepTimeline& timeline);

  /// Ends the file. Throws Error{Errc::system} if writing has failed. Call it after the group has
  /// ended. Without this call, the file lacks the closing bracket, which the format allows.
  void close();

 private:
  void write(const ddprun::CollectiveRecord& record);
  void add(const nlohmann::ordered_json& event);

  std::filesystem::path path_;
  int rank_;
  std::mutex mutex_;
  std::ofstream file_;
};

}  // namespace trainer
