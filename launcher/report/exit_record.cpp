#include "launcher/report/exit_record.hpp"

#include "launcher/report/whole_number.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace ddprun {

namespace {

using Json = nlohmann::json;

/// Reports show no more of it; and all failures of a node must fit into one message.
constexpr std::size_t kTextBytesMax = 4 * 1024;

std::string shortened(const std::string& text) {
  return text.size() <= kTextBytesMax ? text : text.substr(0, kTextBytesMax);
}

using std::chrono::milliseconds;
using std::chrono::system_clock;

/// What another node says may be anything; a clock of nanoseconds ends in 2262.
constexpr milliseconds kTimeMax =
    std::chrono::sys_days(std::chrono::year(2200) / 1 / 1).time_since_epoch();

std::int64_t to_milliseconds(system_clock::time_point when) {
  return std::chrono::floor<milliseconds>(when.time_since_epoch()).count();
}

/// The report shows no fractions of a second, so none are lost that are seen.
system_clock::time_point to_time(std::int64_t count) {
  return system_clock::time_point(std::clamp(milliseconds(count), milliseconds(0), kTimeMax));
}

}  // namespace

std::string to_record(const WorkerExited& exit, bool is_whole) {
  std::vector<std::string> last_lines;
  if (is_whole) {
    for (const auto& line : exit.last_lines) last_lines.push_back(shortened(line));
  }
  const Json record = {
      {"attempt", exit.attempt},
      {"rank", exit.rank},
      {"local_rank", exit.local_rank},
      {"pid", exit.pid},
      {"node", exit.node},
      {"exit_code", exit.exit_code},
      {"signal", exit.signal},
      {"ended_before", shortened(exit.ended_before)},
      {"was_started", exit.was_started},
      {"still_running", exit.still_running ? Json(shortened(*exit.still_running)) : Json()},
      {"was_forwarded", exit.was_forwarded},
      {"is_out_of_memory", exit.is_out_of_memory},
      {"peak_memory_bytes", exit.peak_memory_bytes},
      {"ran_seconds", exit.ran_seconds},
      {"ended_at_ms", exit.ended_at ? Json(to_milliseconds(*exit.ended_at)) : Json()},
      {"core_file", exit.core_file ? Json(exit.core_file->string()) : Json()},
      {"error_message", shortened(exit.error_message)},
      {"error_traceback", is_whole ? shortened(exit.error_traceback) : ""},
      {"last_lines", last_lines},
      {"hint", is_whole ? shortened(exit.hint) : ""},
      {"log_folder", exit.log_folder.string()}};
  return record.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::optional<WorkerExited> from_record(std::string_view text) {
  try {
    const Json record = Json::parse(text);
    WorkerExited exit;
    exit.attempt = whole_number<int>(record.at("attempt"));
    exit.rank = whole_number<int>(record.at("rank"));
    exit.local_rank = whole_number<int>(record.at("local_rank"));
    exit.pid = whole_number<pid_t>(record.at("pid"));
    record.at("node").get_to(exit.node);
    exit.exit_code = whole_number<int>(record.at("exit_code"));
    exit.signal = whole_number<int>(record.at("signal"));
    record.at("ended_before").get_to(exit.ended_before);
    exit.was_started = record.value("was_started", true);
    if (!record.at("still_running").is_null()) {
      exit.still_running = record.at("still_running").get<std::string>();
    }
    exit.was_forwarded = record.value("was_forwarded", false);
    record.at("is_out_of_memory").get_to(exit.is_out_of_memory);
    exit.peak_memory_bytes = whole_number<std::int64_t>(record.at("peak_memory_bytes"));
    record.at("ran_seconds").get_to(exit.ran_seconds);
    if (!record.at("ended_at_ms").is_null()) {
      exit.ended_at = to_time(whole_number<std::int64_t>(record.at("ended_at_ms")));
    }
    if (!record.at("core_file").is_null()) {
      exit.core_file = record.at("core_file").get<std::string>();
    }
    record.at("error_message").get_to(exit.error_message);
    record.at("error_traceback").get_to(exit.error_traceback);
    record.at("last_lines").get_to(exit.last_lines);
    exit.hint = record.value("hint", "");
    exit.log_folder = record.at("log_folder").get<std::string>();
    return exit;
  } catch (const Json::exception&) {
    return std::nullopt;
  }
}

}  // namespace ddprun
