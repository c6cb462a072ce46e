#include "launcher/report/error_file_sink.hpp"

#include "launcher/report/event_text.hpp"
#include "rendezvous/base/quiet_write.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <iterator>
#include <memory>
#include <string_view>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace ddprun {

namespace {

namespace fs = std::filesystem;
using OrderedJson = nlohmann::ordered_json;
using Time = std::chrono::system_clock::time_point;

/// Returns whole seconds as text, the format of torchelastic.
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

/// Returns "its last line: ...". After a fatal error of Python, that is the line of the innermost
/// frame.
std::string last_words(const std::vector<std::string>& lines) {
  const auto head = std::find_if(lines.rbegin(), lines.rend(), [](const std::string& line) {
    return without_rank(line).starts_with("Current thread 0x");
  });
  const auto has_frame = head != lines.rbegin() && head != lines.rend();
  const auto frame = has_frame ? without_rank(*std::prev(head)) : "";
  if (!frame.starts_with("  File ")) return "its last line: " + lines.back();
  return "its innermost frame: " + std::string(frame.substr(2));
}

std::string exit_description(const WorkerExited& worker) {
  const char* how = worker.still_running ? " is " : " ended with ";
  auto text = "rank " + std::to_string(worker.rank) + how + end_of(worker);
  if (!worker.last_lines.empty()) text += "; " + last_words(worker.last_lines);
  return text;
}

OrderedJson document_of(const WorkerExited& worker, Time now) {
  const auto& message = worker.error_message;
  return document(message.empty() ? exit_description(worker) : message,
                  worker.signal != 0 ? -worker.signal : worker.exit_code, worker.error_traceback,
                  worker.error_time.value_or(now));
}

/// Resolves symbolic links, and opens the nearest existing folder.
HeldPath hold(const fs::path& file) {
  std::error_code ignored;
  std::error_code error;
  auto path = fs::weakly_canonical(fs::absolute(file, ignored), error);
  if (error) path = fs::absolute(file, ignored);
  auto folder = path.parent_path();
  while (!fs::is_directory(folder, ignored) && folder.has_relative_path())
    folder = folder.parent_path();
  auto fd = std::make_shared<UniqueFd>(::open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  return HeldPath(std::move(fd), folder) / path.lexically_relative(folder);
}

UniqueFd open_special(const fs::path& file) {
  UniqueFd fd(::open(file.c_str(), O_PATH | O_CLOEXEC));
  struct stat status {};
  const bool is_special = fd.get() >= 0 && ::fstat(fd.get(), &status) == 0 &&
                          !S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode);
  return is_special ? std::move(fd) : UniqueFd();
}

}  // namespace

std::string error_document(const RunFinished& finished, Time now) {
  const bool has_cause = finished.result == RunResult::failed && !finished.failures.empty();
  const auto json = has_cause ? document_of(finished.failures.front(), now)
                              : document(finished.reason, finished.exit_code, "", now);
  return json.dump(-1, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
}

ErrorFileSink::ErrorFileSink(std::filesystem::path file, Log log)
    : file_(std::move(file)),
      place_(hold(file_)),
      special_(open_special(file_)),
      log_(std::move(log)) {}

/// Returns the error, or an empty text.
std::string ErrorFileSink::write(const std::string& text) const {
  // Non-blocking: a pipe without a reader must not delay the end of the run.
  constexpr int kFlags = O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
  const auto special = "/proc/self/fd/" + std::to_string(special_.get());
  UniqueFd fd = special_.get() < 0 ? place_.open_regular(kFlags | O_CREAT | O_TRUNC, 0666)
                                   : UniqueFd(::open(special.c_str(), kFlags));
  if (fd.get() < 0) return std::strerror(errno);
  for (std::string_view rest = text; !rest.empty();) {
    const auto written = quiet_write(fd.get(), rest.data(), rest.size());
    if (written < 0 && errno != EINTR) return std::strerror(errno);
    if (written > 0) rest.remove_prefix(static_cast<std::size_t>(written));
  }
  return ::close(fd.release()) == 0 ? "" : std::strerror(errno);
}

void ErrorFileSink::take(const Event& event, Time when) {
  const auto* finished = std::get_if<RunFinished>(&event);
  if (finished == nullptr || finished->result == RunResult::succeeded) return;
  const auto problem = write(error_document(*finished, when));
  if (problem.empty()) return;
  write_log(log_, LogLevel::warn,
            "TORCHELASTIC_ERROR_FILE=" + file_.string() + ": cannot be written: " + problem);
}

}  // namespace ddprun
