#include "launcher/report/error_file_sink.hpp"

#include "launcher/report/event_text.hpp"
#include "rendezvous/base/quiet_write.hpp"

#include <nlohmann/json.hpp>

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <string_view>
#include <unistd.h>
#include <utility>

namespace ddprun {

namespace {

using OrderedJson = nlohmann::ordered_json;
using Time = std::chrono::system_clock::time_point;

/// Whole seconds as text, as torchelastic writes them and its readers expect.
std::string seconds_text(Time when) {
  return std::to_string(std::chrono::system_clock::to_time_t(when));
}

OrderedJson document(const std::string& message, int error_code, const std::string& callstack,
                     Time when) {
  return {{"message",
           {{"message", message},
            {"errorCode", error_code},
            {"extraInfo", {{"py_callstack", callstack}, {"timestamp", seconds_text(when)}}}}}};
}

std::string end_in_words(const WorkerExited& worker) {
  const char* how = worker.still_running ? " is " : " ended with ";
  auto text = "rank " + std::to_string(worker.rank) + how + end_of(worker);
  if (!worker.last_lines.empty()) text += "; its last line: " + worker.last_lines.back();
  return text;
}

OrderedJson document_of(const WorkerExited& worker, Time now) {
  const auto& message = worker.error_message;
  return document(message.empty() ? end_in_words(worker) : message,
                  worker.signal != 0 ? -worker.signal : worker.exit_code, worker.error_traceback,
                  worker.error_time.value_or(now));
}

/// What went wrong, or nothing.
std::string write_file(const std::filesystem::path& file, std::string_view text) {
  // Non-blocking: a pipe that nobody reads must not hold up the end of the run.
  const int fd =
      ::open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0666);
  if (fd < 0) return std::strerror(errno);
  std::string problem;
  while (!text.empty() && problem.empty()) {
    const auto written = quiet_write(fd, text.data(), text.size());
    if (written < 0 && errno != EINTR) problem = std::strerror(errno);
    if (written > 0) text.remove_prefix(static_cast<std::size_t>(written));
  }
  if (::close(fd) != 0 && problem.empty()) problem = std::strerror(errno);
  return problem;
}

}  // namespace

std::string error_document(const RunFinished& finished, Time now) {
  const bool has_cause = finished.result == RunResult::failed && !finished.failures.empty();
  const auto json = has_cause ? document_of(finished.failures.front(), now)
                              : document(finished.reason, finished.exit_code, "", now);
  return json.dump(-1, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
}

ErrorFileSink::ErrorFileSink(std::filesystem::path file, Log log)
    : file_(std::move(file)), log_(std::move(log)) {}

void ErrorFileSink::take(const Event& event, Time when) {
  const auto* finished = std::get_if<RunFinished>(&event);
  if (finished == nullptr || finished->result == RunResult::succeeded) return;
  const auto problem = write_file(file_, error_document(*finished, when));
  if (problem.empty()) return;
  write_log(log_, LogLevel::warn,
            "TORCHELASTIC_ERROR_FILE=" + file_.string() + ": cannot be written: " + problem);
}

}  // namespace ddprun
