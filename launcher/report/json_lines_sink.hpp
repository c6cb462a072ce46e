// Events as JSON lines for machines: one object a line with "time", "node_rank", "event" and the
// fields of the event's struct by their names. Each line is written at once. One thread.
#pragma once

#include "launcher/report/event.hpp"
#include <ddprun/log.hpp>

#include <filesystem>
#include <string>

namespace ddprun {

/// RFC 3339 in UTC with microseconds, which sorts as text.
std::string utc_timestamp(std::chrono::system_clock::time_point when);

/// The line for an event, without its newline. Text that is not UTF-8 is made so.
std::string json_line(const Event& event, std::chrono::system_clock::time_point when,
                      int node_rank);

class JsonLinesSink : public EventSink {
 public:
  /// Appends to `file`, making it if need be. Throws Error{Errc::usage} if that is not possible.
  /// `log` hears once if lines can no longer be written.
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
