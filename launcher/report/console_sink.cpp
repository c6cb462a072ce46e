#include "launcher/report/console_sink.hpp"

#include "launcher/report/agent_line.hpp"
#include "launcher/report/final_report.hpp"
#include "launcher/report/grouped_stacks.hpp"
#include "rendezvous/base/text.hpp"

#include <spdlog/pattern_formatter.h>

#include <algorithm>
#include <sys/ioctl.h>

namespace ddprun {

namespace {

spdlog::level::level_enum spdlog_level(LogLevel level) {
  switch (level) {
    case LogLevel::debug:
      return spdlog::level::debug;
    case LogLevel::info:
      return spdlog::level::info;
    case LogLevel::warn:
      return spdlog::level::warn;
    case LogLevel::error:
      return spdlog::level::err;
  }
  return spdlog::level::info;
}

/// Returns the ANSI parameter for the color of the level, such as "33".
const char* color_of(LogLevel level) {
  switch (level) {
    case LogLevel::debug:
      return "36";
    case LogLevel::info:
      return "32";
    case LogLevel::warn:
      return "33";
    case LogLevel::error:
      return "31";
  }
  return "0";
}

}  // namespace

/// Uses spdlog's formatting without its sinks, which write to the stream themselves.
class ConsoleSink::Formatter {
 public:
  Formatter() : formatter_("%Y-%m-%d %H:%M:%S.%e %^%-7l%$ %v") {}

  std::string format(LogLevel level, bool is_colored, const std::string& message,
                     std::chrono::system_clock::time_point when) {
    const spdlog::details::log_msg line(when, spdlog::source_loc{}, "", spdlog_level(level),
                                        message);
    spdlog::memory_buf_t buffer;
    formatter_.format(line, buffer);
    std::string text(buffer.data(), buffer.size());
    if (!is_colored) return text;
    text.insert(line.color_range_end, "\x1b[0m");
    text.insert(line.color_range_start, std::string("\x1b[") + color_of(level) + "m");
    return text;
  }

 private:
  spdlog::pattern_formatter formatter_;
};

ConsoleSink::ConsoleSink(const ConsoleSettings& settings, TextWriter write)
    : settings_(settings), write_(std::move(write)), formatter_(std::make_unique<Formatter>()) {}

ConsoleSink::~ConsoleSink() = default;

void ConsoleSink::take(const Event& event, std::chrono::system_clock::time_point when) {
  if (const auto* started = std::get_if<RunStarted>(&event)) program_ = started->program;
  if (std::holds_alternative<AttemptStarted>(event)) {
    stopped_.clear();
    stacks_.clear();
  }
  if (const auto* worker = std::get_if<WorkerExited>(&event)) {
    if (worker->was_stopped && !worker->still_running) stopped_.insert(worker->rank);
  }
  const auto* finished = std::get_if<RunFinished>(&event);
  if (finished != nullptr && finished->result == RunResult::failed) {
    write_end(*finished, when);
  } else {
    write_line(line_for(event), when);
  }
  const auto* stacks = std::get_if<StacksTaken>(&event);
  if (stacks == nullptr) return;
  stacks_.push_back(*stacks);
  write_stacks(*stacks);
}

/// Writes nothing if the stacks are available elsewhere on this node: in the file or, if Python
/// printed them, in the output of the worker.
void ConsoleSink::write_stacks(const StacksTaken& stacks) {
  if (!stacks.file.empty() || settings_.level > LogLevel::warn) return;
  const bool has_printed = stacks.means == std::vector<std::string>{"faulthandler"};
  if (has_printed && stacks.node.empty()) return;
  const auto ranks = short_ranks(stacks);
  std::string text;
  for (const auto& line : stacks.lines) {
    text += "[" + ranks + "]: " + printable(line) + "\n";
  }
  write_(text);
}

/// Writes the report of a failed run, or a line that names the node that prints it.
void ConsoleSink::write_end(const RunFinished& finished,
                            std::chrono::system_clock::time_point when) {
  if (!settings_.reporter.empty()) {
    auto line = line_for(finished);
    line.message += "; node " + settings_.reporter + " prints the report";
    return write_line(line, when);
  }
  const auto text = report(finished);
  write_(settings_.mark.empty() ? text : marked_report(settings_.mark, text));
}

void ConsoleSink::write_line(const EventLine& line, std::chrono::system_clock::time_point when) {
  if (line.level < settings_.level) return;
  // One event is one line, even if a reason or an error message contains newlines.
  auto text = printable(line.message);
  std::replace(text.begin(), text.end(), '\n', ' ');
  // The parent adds the name of the node.
  const bool is_passed_on = !settings_.mark.empty();
  std::vector<std::string> place;
  if (!is_passed_on) place.push_back("node " + settings_.node);
  if (line.attempt >= 0) place.push_back("attempt " + std::to_string(line.attempt));
  const auto message = place.empty() ? text : join(place, ", ") + ": " + text;
  auto formatted = formatter_->format(line.level, settings_.is_colored, message, when);
  if (!is_passed_on) return write_(formatted);
  formatted.pop_back();  // the newline
  write_(marked(settings_.mark, {.text = formatted, .key = message}));
}

std::string ConsoleSink::report(const RunFinished& finished) const {
  // With several nodes the report covers the run, whereas this sink has only the node's events.
  const bool is_of_many = !finished.failures.empty() && !finished.failures.front().node.empty();
  if (is_of_many) return final_report(finished, {.program = program_}, settings_.columns);
  const std::vector<int> stopped(stopped_.begin(), stopped_.end());
  return final_report(finished, {.program = program_, .stopped = stopped, .stacks = stacks_},
                      settings_.columns);
}

std::optional<LogLevel> parse_log_level(std::string_view name) {
  const auto lower = to_lower(name);
  if (lower == "debug" || lower == "notset" || lower == "trace") return LogLevel::debug;
  if (lower == "info") return LogLevel::info;
  if (lower == "warn" || lower == "warning") return LogLevel::warn;
  if (lower == "error" || lower == "critical" || lower == "fatal") return LogLevel::error;
  return std::nullopt;
}

int terminal_columns(int fd, int if_none) {
  winsize size{};
  if (::ioctl(fd, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return if_none;
  return size.ws_col;
}

}  // namespace ddprun
