#include "launcher/report/json_lines_sink.hpp"

#include "rendezvous/base/quiet_write.hpp"
#include "rendezvous/base/signal_name.hpp"
#include <ddprun/error.hpp>

#include <nlohmann/json.hpp>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <unistd.h>

namespace ddprun {

namespace {

using OrderedJson = nlohmann::ordered_json;

OrderedJson signal_or_null(int signal) {
  return signal == 0 ? OrderedJson() : OrderedJson(signal_name(signal));
}

OrderedJson text_or_null(const std::string& text) {
  return text.empty() ? OrderedJson() : OrderedJson(text);
}

OrderedJson path_or_null(const std::filesystem::path& path) {
  return text_or_null(path.string());
}

const char* to_text(RunResult result) {
  switch (result) {
    case RunResult::succeeded:
      return "succeeded";
    case RunResult::failed:
      return "failed";
    case RunResult::not_started:
      return "not_started";
    case RunResult::interrupted:
      return "interrupted";
    case RunResult::unfit:
      return "unfit";
    case RunResult::no_rendezvous:
      return "no_rendezvous";
    case RunResult::agent_failed:
      return "agent_failed";
  }
  return "failed";
}

OrderedJson fields(const RunStarted& event) {
  return {{"event", "run_started"},   {"run_id", event.run_id},
          {"program", event.program}, {"local_world_size", event.local_world_size},
          {"store", event.store},     {"log_folder", path_or_null(event.log_folder)}};
}

OrderedJson fields(const RoundJoined& event) {
  return {{"event", "round_joined"},        {"round", event.round},
          {"node_rank", event.node_rank},   {"node_count", event.node_count},
          {"first_rank", event.first_rank}, {"local_world_size", event.local_world_size},
          {"world_size", event.world_size}, {"store", event.store}};
}

OrderedJson fields(const PreflightStarted& event) {
  return {{"event", "preflight_started"}, {"workers", event.workers}};
}

OrderedJson fields(const DeviceExamined& event) {
  const auto& report = event.report;
  return {{"event", "device_examined"},
          {"local_rank", event.local_rank},
          {"device", report.device},
          {"problem", report.problem},
          {"remark", report.remark},
          {"memory_bytes_per_second", report.memory_bytes_per_second},
          {"product_flops", report.product_flops},
          {"exchange_bytes_per_second", report.exchange_bytes_per_second},
          {"all_reduce_bytes_per_second", report.all_reduce_bytes_per_second}};
}

OrderedJson fields(const PreflightEnded& event) {
  return {{"event", "preflight_ended"},
          {"seconds", event.seconds},
          {"is_in_order", !event.summary.empty()}};
}

OrderedJson fields(const AttemptStarted& event) {
  return {
      {"event", "attempt_started"},
      {"attempt", event.attempt},
      {"restarts_left", event.restarts_left ? OrderedJson(*event.restarts_left) : OrderedJson()}};
}

OrderedJson fields(const WorkerStarted& event) {
  return {{"event", "worker_started"},
          {"attempt", event.attempt},
          {"rank", event.rank},
          {"pid", event.pid}};
}

OrderedJson fields(const WorkerNotStarted& event) {
  return {{"event", "worker_not_started"},
          {"attempt", event.attempt},
          {"rank", event.rank},
          {"step", event.step},
          {"message", event.message},
          {"ends_the_run", event.ends_the_run}};
}

OrderedJson fields(const WorkerDying& event) {
  return {{"event", "worker_dying"},
          {"attempt", event.attempt},
          {"rank", event.rank},
          {"after_start_seconds", event.after_start_seconds},
          {"error_message", event.error_message}};
}

OrderedJson fields(const WorkerExited& event) {
  const bool has_exit_code = event.signal == 0 && !event.still_running;
  return {
      {"event", "worker_exited"},
      {"attempt", event.attempt},
      {"rank", event.rank},
      {"local_rank", event.local_rank},
      {"pid", event.pid},
      {"exit_code", has_exit_code ? OrderedJson(event.exit_code) : OrderedJson()},
      {"signal", signal_or_null(event.signal)},
      {"still_running", event.still_running ? OrderedJson(*event.still_running) : OrderedJson()},
      {"hung", event.hung.empty() ? OrderedJson() : OrderedJson(event.hung)},
      {"was_stopped", event.was_stopped},
      {"was_forwarded", event.was_forwarded},
      {"is_out_of_memory", event.is_out_of_memory},
      {"peak_memory_bytes", event.peak_memory_bytes},
      {"ran_seconds", event.ran_seconds},
      {"core_file", event.core_file ? OrderedJson(event.core_file->string()) : OrderedJson()},
      {"error_message", event.error_message},
      {"error_traceback", event.error_traceback},
      {"error_time",
       event.error_time ? OrderedJson(utc_timestamp(*event.error_time)) : OrderedJson()},
      {"last_lines", event.last_lines},
      {"log_folder", path_or_null(event.log_folder)}};
}

OrderedJson fields(const WorkersStopping& event) {
  return {{"event", "workers_stopping"},
          {"attempt", event.attempt},
          {"reason", event.reason},
          {"ranks", event.ranks}};
}

OrderedJson fields(const WorkersKilled& event) {
  return {{"event", "workers_killed"},
          {"attempt", event.attempt},
          {"reason", event.reason},
          {"ranks", event.ranks}};
}

OrderedJson fields(const StacksTaken& event) {
  return {{"event", "stacks_taken"},    {"attempt", event.attempt},
          {"rank", event.rank},         {"same", event.same},
          {"node", event.node},         {"pid", event.pid},
          {"reason", event.reason},     {"means", event.means},
          {"problems", event.problems}, {"file", path_or_null(event.file)},
          {"lines", event.lines},       {"was_ended", event.was_ended}};
}

OrderedJson missing_ranks(const std::vector<MissingRank>& ranks) {
  OrderedJson list = OrderedJson::array();
  for (const auto& one : ranks) list.push_back({{"rank", one.rank}, {"doing", one.doing}});
  return list;
}

OrderedJson fields(const CollectiveStalled& event) {
  const StalledCollective& stalled = event.stalled;
  OrderedJson calls = OrderedJson::array();
  for (const auto& [call, bytes, ranks] : stalled.calls)
    calls.push_back({{"call", call}, {"bytes", bytes}, {"ranks", ranks}});
  return {{"event", "collective_stalled"},
          {"attempt", event.attempt},
          {"group", stalled.group},
          {"number", stalled.calls.empty() ? OrderedJson() : OrderedJson(stalled.number)},
          {"calls", calls},
          {"waiting_ranks", stalled.waiting},
          {"waited_seconds", stalled.waited_seconds},
          {"through_ranks", stalled.through},
          {"missing_ranks", missing_ranks(stalled.missing)},
          {"messaging_ranks", missing_ranks(stalled.messaging)},
          {"unknown_ranks", stalled.unknown}};
}

const char* word_of(OnHang action) {
  switch (action) {
    case OnHang::report:
      return "report";
    case OnHang::restart:
      return "restart";
    case OnHang::stop:
      return "stop";
  }
  return "";
}

OrderedJson connections(const std::vector<StalledConnection>& all) {
  OrderedJson list = OrderedJson::array();
  for (const auto& [rank, peer, silence, retransmissions] : all) {
    list.push_back({{"rank", rank},
                    {"peer", peer},
                    {"seconds", std::chrono::duration<double>(silence).count()},
                    {"retransmissions", retransmissions}});
  }
  return list;
}

OrderedJson fields(const HangDetected& event) {
  return {{"event", "hang_detected"},
          {"attempt", event.attempt},
          {"node", event.node},
          {"seconds", event.seconds},
          {"is_certain", event.is_certain},
          {"ranks", missing_ranks(event.ranks)},
          {"connections", connections(event.connections)},
          {"action", word_of(event.action)},
          {"lacks_restarts", event.lacks_restarts}};
}

OrderedJson fields(const HangEnded& event) {
  return {{"event", "hang_ended"},
          {"attempt", event.attempt},
          {"node", event.node},
          {"seconds", event.seconds}};
}

OrderedJson fields(const SlowRankDetected& event) {
  return {{"event", "slow_rank_detected"},
          {"attempt", event.attempt},
          {"rank", event.rank},
          {"node", event.node},
          {"factor", event.factor},
          {"seconds", event.seconds},
          {"doing", event.doing},
          {"peer", event.peer}};
}

OrderedJson fields(const SlowRankRecovered& event) {
  return {{"event", "slow_rank_recovered"},
          {"attempt", event.attempt},
          {"rank", event.rank},
          {"node", event.node},
          {"peer", event.peer}};
}

OrderedJson fields(const RestartDecided& event) {
  return {{"event", "restart_decided"},
          {"next_attempt", event.next_attempt},
          {"reason", event.reason},
          {"delay_seconds", std::chrono::duration<double>(event.delay).count()}};
}

OrderedJson fields(const SignalReceived& event) {
  return {{"event", "signal_received"},
          {"signal", signal_name(event.signal)},
          {"action", event.action}};
}

OrderedJson fields(const Note& event) {
  return {{"event", "note"}, {"message", event.message}};
}

OrderedJson fields(const Warning& event) {
  return {{"event", "warning"}, {"message", event.message}};
}

OrderedJson fields(const RunFinished& event) {
  OrderedJson ranks = OrderedJson::array();
  for (const auto& worker : event.failures) ranks.push_back(worker.rank);
  return {{"event", "run_finished"},      {"result", to_text(event.result)},
          {"exit_code", event.exit_code}, {"attempts", event.attempts},
          {"reason", event.reason},       {"failed_ranks", ranks}};
}

}  // namespace

std::string utc_timestamp(std::chrono::system_clock::time_point when) {
  const auto whole = std::chrono::floor<std::chrono::seconds>(when);
  const auto seconds = std::chrono::system_clock::to_time_t(whole);
  const auto micro = std::chrono::duration_cast<std::chrono::microseconds>(when - whole).count();
  std::tm parts{};
  ::gmtime_r(&seconds, &parts);
  char date[40];
  std::strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%S", &parts);
  char text[64];
  std::snprintf(text, sizeof text, "%s.%06ldZ", date, static_cast<long>(micro));
  return text;
}

std::string json_line(const Event& event, std::chrono::system_clock::time_point when,
                      int node_rank) {
  OrderedJson line = {{"time", utc_timestamp(when)}, {"node_rank", node_rank}};
  line.update(std::visit([](const auto& value) { return fields(value); }, event));
  return line.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
}

JsonLinesSink::JsonLinesSink(const std::filesystem::path& file, int node_rank, Log log)
    : file_(file), node_rank_(node_rank), log_(std::move(log)) {
  // Non-blocking: a reader of a pipe that does not read must not block the agent.
  fd_ =
      ::open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0666);
  if (fd_ >= 0) return;
  const int reason = errno;
  const std::string hint = reason == ENXIO ? "no process reads this pipe" : std::strerror(reason);
  throw Error(Errc::usage, "--events=" + file.string() + ": cannot be written: " + hint);
}

JsonLinesSink::~JsonLinesSink() {
  ::close(fd_);
}

void JsonLinesSink::take(const Event& event, std::chrono::system_clock::time_point when) {
  if (const auto* joined = std::get_if<RoundJoined>(&event)) node_rank_ = joined->node_rank;
  auto line = json_line(event, when, node_rank_) + "\n";
  // The rest of a partial line is lost; begin a new line so that the next event is not lost, too.
  if (ends_in_mid_line_) line.insert(line.begin(), '\n');
  std::string_view rest = line;
  while (!rest.empty()) {
    const auto written = quiet_write(fd_, rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) break;
    rest.remove_prefix(static_cast<std::size_t>(written));
  }
  if (rest.size() != line.size()) ends_in_mid_line_ = !rest.empty();
  if (rest.empty() || has_warned_) return;
  has_warned_ = true;
  write_log(log_, LogLevel::warn,
            "--events=" + file_.string() + ": events are being lost: " + std::strerror(errno));
}

}  // namespace ddprun
