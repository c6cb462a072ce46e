#include "launcher/report/json_lines_sink.hpp"
#include <ddprun/error.hpp>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <csignal>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <sys/stat.h>
#include <unistd.h>

namespace json_lines_test {

using namespace ddprun;
using namespace std::chrono_literals;

namespace {

namespace fs = std::filesystem;

// 2026-11-21 12:34:56 UTC.
const std::chrono::system_clock::time_point kNoon{1795264496s + 78us};

nlohmann::json parsed(const Event& event) {
  return nlohmann::json::parse(json_line(event, kNoon, 1));
}

/// A file of this name, removed by the destructor.
struct TemporaryFile {
  explicit TemporaryFile(const char* name) : path(fs::temp_directory_path() / name) {}
  ~TemporaryFile() { fs::remove(path); }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  std::vector<std::string> lines() const {
    std::vector<std::string> result;
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);) result.push_back(line);
    return result;
  }

  fs::path path;
};

std::string refusal_of(const fs::path& path) {
  try {
    JsonLinesSink sink(path, 0, {});
    return "";
  } catch (const Error& error) {
    CHECK(error.code() == Errc::usage);
    return error.what();
  }
}

}  // namespace

TEST_SUITE("json lines") {
  TEST_CASE("json lines: an event has time and node and name and its own fields") {
    WorkerExited exited;
    exited.attempt = 1;
    exited.rank = 5;
    exited.local_rank = 2;
    exited.pid = 4711;
    exited.signal = SIGSEGV;
    exited.is_out_of_memory = true;
    exited.peak_memory_bytes = 1LL << 40;
    exited.ran_seconds = 2.5;
    exited.core_file = "/cores/1";
    exited.error_message = "boom";
    exited.error_traceback = "line 1\nline 2";
    exited.error_time = std::chrono::system_clock::time_point(1'795'227'646s);
    exited.last_lines = {"a", "b"};
    exited.log_folder = "/logs/5";
    RunFinished finished;
    finished.result = RunResult::failed;
    finished.exit_code = 139;
    finished.attempts = 2;
    finished.reason = "why";
    finished.failures = {exited};
    const std::pair<Event, const char*> cases[] = {
        {PreflightStarted{8}, R"({"event":"preflight_started","workers":8})"},
        {DeviceExamined{1, {"CPU", "bad", "slow", 1, 2, 3, 4}},
         R"({"event":"device_examined","local_rank":1,"device":"CPU","problem":"bad",
             "remark":"slow","memory_bytes_per_second":1.0,"product_flops":2.0,
             "exchange_bytes_per_second":3.0,"all_reduce_bytes_per_second":4.0})"},
        {PreflightEnded{0.5, "1 x CPU passed"},
         R"({"event":"preflight_ended","seconds":0.5,"is_in_order":true})"},
        {RunStarted{"job", "x.py", 4, "127.0.0.1:1", "/logs"},
         R"({"event":"run_started","run_id":"job","program":"x.py","local_world_size":4,
             "store":"127.0.0.1:1","log_folder":"/logs"})"},
        {RoundJoined{1, 1, 2, 4, 4, 8, "10.0.0.1:29400"},
         R"({"event":"round_joined","round":1,"node_rank":1,"node_count":2,"first_rank":4,
             "local_world_size":4,"world_size":8,"store":"10.0.0.1:29400"})"},
        {AttemptStarted{1, 2}, R"({"event":"attempt_started","attempt":1,"restarts_left":2})"},
        {WorkerStarted{1, 5, 4711},
         R"({"event":"worker_started","attempt":1,"rank":5,"pid":4711})"},
        {WorkerNotStarted{0, 1, "exec", "no such file", false},
         R"({"event":"worker_not_started","attempt":0,"rank":1,"step":"exec",
             "message":"no such file","ends_the_run":false})"},
        {WorkerDying{1, 5, 0.25},
         R"({"event":"worker_dying","attempt":1,"rank":5,"after_start_seconds":0.25,)"
         R"("error_message":""})"},
        {exited,
         R"({"event":"worker_exited","attempt":1,"rank":5,"local_rank":2,"pid":4711,
             "exit_code":null,"signal":"SIGSEGV","still_running":null,"hung":null,
             "was_stopped":false,"was_forwarded":false,"is_out_of_memory":true,
             "peak_memory_bytes":1099511627776,"ran_seconds":2.5,"core_file":"/cores/1",
             "error_message":"boom","error_traceback":"line 1\nline 2",
             "error_time":"2026-11-21T02:20:46.000000Z","last_lines":["a","b"],
             "log_folder":"/logs/5"})"},
        {WorkersStopping{1, "why", {0, 2}},
         R"({"event":"workers_stopping","attempt":1,"reason":"why","ranks":[0,2]})"},
        {WorkersKilled{1, "why", {0}},
         R"({"event":"workers_killed","attempt":1,"reason":"why","ranks":[0]})"},
        {StacksTaken{.attempt = 1,
                     .rank = 0,
                     .same = {2},
                     .pid = 7,
                     .node = "b",
                     .reason = "why",
                     .means = {"gdb"},
                     .problems = {"py-spy: refused"},
                     .lines = {"#0 main"}},
         R"({"event":"stacks_taken","attempt":1,"rank":0,"same":[2],"node":"b","pid":7,)"
         R"("reason":"why","means":["gdb"],"problems":["py-spy: refused"],"file":null,)"
         R"("lines":["#0 main"],"was_ended":false})"},
        {HangDetected{.attempt = 1,
                      .seconds = 5,
                      .is_certain = true,
                      .ranks = {{3, "stopped"}},
                      .connections = {{3, "10.0.0.2:4711", std::chrono::milliseconds(1500), 5}},
                      .action = OnHang::restart},
         R"({"event":"hang_detected","attempt":1,"node":"","seconds":5.0,"is_certain":true,
             "ranks":[{"rank":3,"doing":"stopped"}],"connections":[{"rank":3,
             "peer":"10.0.0.2:4711","seconds":1.5,"retransmissions":5}],"action":"restart",
             "lacks_restarts":false})"},
        {HangEnded{.attempt = 1, .seconds = 42},
         R"({"event":"hang_ended","attempt":1,"node":"","seconds":42.0})"},
        {SlowRankDetected{.attempt = 1,
                          .rank = 3,
                          .node = "b",
                          .factor = 1.5,
                          .seconds = 10,
                          .doing = "computes",
                          .peer = "c"},
         R"({"event":"slow_rank_detected","attempt":1,"rank":3,"node":"b","factor":1.5,
             "seconds":10.0,"doing":"computes","peer":"c"})"},
        {SlowRankRecovered{.attempt = 1, .rank = 3},
         R"({"event":"slow_rank_recovered","attempt":1,"rank":3,"node":"","peer":""})"},
        {CollectiveStalled{.attempt = 1,
                           .stalled = {.group = "default",
                                       .number = 3,
                                       .calls = {{"barrier", 0, {0}}},
                                       .waiting = {0},
                                       .waited_seconds = 1.5,
                                       .through = {2},
                                       .missing = {{1, "has not called anything"}}}},
         R"({"event":"collective_stalled","attempt":1,"group":"default","number":3,
             "calls":[{"call":"barrier","bytes":0,"ranks":[0]}],"waiting_ranks":[0],
             "waited_seconds":1.5,"through_ranks":[2],
             "missing_ranks":[{"rank":1,"doing":"has not called anything"}],
             "messaging_ranks":[],"unknown_ranks":[]})"},
        {RestartDecided{2, "why", 1500ms},
         R"({"event":"restart_decided","next_attempt":2,"reason":"why","delay_seconds":1.5})"},
        {SignalReceived{SIGUSR1, "forwarded"},
         R"({"event":"signal_received","signal":"SIGUSR1","action":"forwarded"})"},
        {Note{"n"}, R"({"event":"note","message":"n"})"},
        {Warning{"w"}, R"({"event":"warning","message":"w"})"},
        {finished,
         R"({"event":"run_finished","result":"failed","exit_code":139,"attempts":2,
             "reason":"why","failed_ranks":[5]})"},
    };
    CHECK(std::size(cases) == std::variant_size_v<Event>);
    for (const auto& [event, text] : cases) {
      auto expected = nlohmann::json::parse(text);
      expected["time"] = "2026-11-21T12:34:56.000078Z";
      expected["node_rank"] = 1;
      CHECK(parsed(event) == expected);
    }
  }

  TEST_CASE("json lines: the signal of an exited worker and unknown paths are null") {
    WorkerExited exited;
    exited.exit_code = 3;
    const auto line = parsed(exited);
    CHECK(line["exit_code"] == 3);
    CHECK(line["signal"].is_null());
    CHECK(line["core_file"].is_null());
    CHECK(line["log_folder"].is_null());
  }

  TEST_CASE("json lines: exit code and signal of a worker that could not be killed are null") {
    WorkerExited exited;
    exited.exit_code = 255;
    exited.still_running = "65 s after SIGKILL: state D";
    const auto line = parsed(exited);
    CHECK(line["exit_code"].is_null());
    CHECK(line["signal"].is_null());
    CHECK(line["still_running"] == "65 s after SIGKILL: state D");
  }

  TEST_CASE("json lines: restarts_left is null if restarts are limited by a window") {
    CHECK(parsed(AttemptStarted{.attempt = 1, .restarts_left = {}})["restarts_left"].is_null());
  }

  TEST_CASE("json lines: any bytes in a text yield one line of valid JSON") {
    for (const std::string& bytes :
         {std::string("\xff\xfe"), std::string("a\nb\r\0c", 6), std::string("\xe2\x82")}) {
      const auto line = json_line(Warning{bytes}, kNoon, 0);
      CHECK(line.find('\n') == std::string::npos);
      CHECK(nlohmann::json::accept(line));
    }
  }
}

TEST_SUITE("json lines file") {
  TEST_CASE("json lines: events are appended to an existing file without delay") {
    const TemporaryFile file("events.jsonl");
    for (int run = 1; run <= 2; ++run) {
      JsonLinesSink sink(file.path, 0, {});
      sink.take(Note{"first"}, kNoon);
      CHECK(file.lines().size() == static_cast<std::size_t>(2 * run - 1));
      sink.take(Note{"second"}, kNoon);
      CHECK(nlohmann::json::parse(file.lines().back())["message"] == "second");
    }
    CHECK(file.lines().size() == 4);
  }

  TEST_CASE("json lines: an unwritable file is reported like an invalid option") {
    CHECK(refusal_of("/no/such/folder/events") ==
          "--events=/no/such/folder/events: cannot be written: No such file or directory");
    CHECK(refusal_of("/") == "--events=/: cannot be written: Is a directory");
    const TemporaryFile pipe("events.fifo");
    REQUIRE(::mkfifo(pipe.path.c_str(), 0600) == 0);
    CHECK(refusal_of(pipe.path).find("no process reads this pipe") != std::string::npos);
  }

  TEST_CASE("json lines: a closed pipe loses events but does not fail the run") {
    const TemporaryFile pipe("events.fifo");
    REQUIRE(::mkfifo(pipe.path.c_str(), 0600) == 0);
    const int reader = ::open(pipe.path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    int warnings = 0;
    JsonLinesSink sink(pipe.path, 0, [&](LogLevel, std::string_view) { ++warnings; });
    sink.take(Note{"read"}, kNoon);
    ::close(reader);
    for (int i = 0; i < 3; ++i) sink.take(Note{"lost"}, kNoon);
    CHECK(warnings == 1);
  }

  TEST_CASE("json lines: a full disk causes one warning but does not fail the run") {
    std::vector<std::string> warnings;
    JsonLinesSink sink("/dev/full", 0, [&](LogLevel level, std::string_view line) {
      CHECK(level == LogLevel::warn);
      warnings.emplace_back(line);
    });
    for (int i = 0; i < 3; ++i) sink.take(Note{"x"}, kNoon);
    REQUIRE(warnings.size() == 1);
    CHECK(warnings[0] == "--events=/dev/full: events are being lost: No space left on device");
  }
}

}  // namespace json_lines_test
