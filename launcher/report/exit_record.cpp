#include "launcher/report/exit_record.hpp"

#include "launcher/report/whole_number.hpp"

#include <nlohmann/json.hpp>

namespace ddprun {

namespace {

using Json = nlohmann::json;

/// Reports show no more of it; and all failures of a node must fit into one message.
constexpr std::size_t kTextBytesMax = 4 * 1024;

std::string shortened(const std::string& text) {
  return text.size() <= kTextBytesMax ? text : text.substr(0, kTextBytesMax);
}

}  // namespace

std::string to_record(const WorkerExited& exit, bool is_whole) {
  std::vector<std::string> last_lines;
  if (is_whole) {
    for (const auto& line : exit.last_lines) last_lines.push_back(shortened(line));
  }
  const Json record = {{"attempt", exit.attempt},
                       {"rank", exit.rank},
                       {"local_rank", exit.local_rank},
                       {"pid", exit.pid},
                       {"node", exit.node},
                       {"exit_code", exit.exit_code},
                       {"signal", exit.signal},
                       {"ended_before", shortened(exit.ended_before)},
                       {"is_out_of_memory", exit.is_out_of_memory},
                       {"peak_memory_bytes", exit.peak_memory_bytes},
                       {"ran_seconds", exit.ran_seconds},
                       {"core_file", exit.core_file ? Json(exit.core_file->string()) : Json()},
                       {"error_message", shortened(exit.error_message)},
                       {"error_traceback", is_whole ? shortened(exit.error_traceback) : ""},
                       {"last_lines", last_lines},
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
    record.at("is_out_of_memory").get_to(exit.is_out_of_memory);
    exit.peak_memory_bytes = whole_number<std::int64_t>(record.at("peak_memory_bytes"));
    record.at("ran_seconds").get_to(exit.ran_seconds);
    if (!record.at("core_file").is_null()) {
      exit.core_file = record.at("core_file").get<std::string>();
    }
    record.at("error_message").get_to(exit.error_message);
    record.at("error_traceback").get_to(exit.error_traceback);
    record.at("last_lines").get_to(exit.last_lines);
    exit.log_folder = record.at("log_folder").get<std::string>();
    return exit;
  } catch (const Json::exception&) {
    return std::nullopt;
  }
}

}  // namespace ddprun
