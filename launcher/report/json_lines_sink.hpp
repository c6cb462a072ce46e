// Writes events as JSON lines for machines: one object per line with "time", "node_rank", "event"
// and the fields of the event's struct under their names. Writes each line immediately.
// Single-threaded.
#pragma once

#include "launcher/report/event.hpp"
#include <ddprun/log.hpp>

#include <filesystem>
#include <string>

namespace ddprun {

/// Returns the time in RFC 3339 format, in UTC with microseconds, which sorts as text.
std::string utc_timestamp(std::chrono::system_clock::time_point when);

/// Returns the line for an event without a newline. Replaces invalid UTF-8.
std::string json_line(const Event& event, std::chrono::system_clock::time_point when,
                      int node_rank);

class JsonLinesSink : public EventSink {
 public:
  /// Appends to `file`, and creates it if necessary. Throws Error{Errc::usage} on failure. Reports
  /// the first failed write to `log`.
  JsonLinesSink(const std::filesystem::path& file, int node_rank, Log log);
  ~JsonLinesSink() override;
  JsonLinesSink(const JsonLinesSink&) = delete;
  JsonLinesSink& operator=(const JsonLinesSink&) = delete;

  void take(const Event& event, std::chrono::system_clock::time_point when) override;

 private:
  std::filesystem::path file_;
  int node_rank_;
  Log log_;
  int fd_;
  bool ends_in_mid_line_ = false;
  bool has_warned_ = false;
};

}  // namespace ddprun
