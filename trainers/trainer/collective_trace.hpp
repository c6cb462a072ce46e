// Writes every collective of a worker, and every bucket of gradients, to a file in Chrome's trace
// format, for chrome://tracing or Perfetto. Times are microseconds of the machine's monotonic
// clock, so that the files of the workers of one machine can be laid over each other.
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
  /// Rank 0 writes `path`; rank 3 "trace.rank3.json" if it is "trace.json". With an empty path
  /// nothing is written. Throws Error{Errc::usage} if the file cannot be opened.
  CollectiveTrace(const std::filesystem::path& path, int rank);

  /// For GroupOptions::on_collective; null if nothing is written. This object must outlive the
  /// group.
  std::function<void(const ddprun::CollectiveRecord&)> recorder();

  /// The buckets of a step, in a row of their own. Any thread.
  void write(const ddprun::StepTimeline& timeline);

  /// Ends the file. Throws Error{Errc::system} if it could not be written. Call it when the group
  /// is gone; without it the file lacks its last bracket, which the format allows.
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
