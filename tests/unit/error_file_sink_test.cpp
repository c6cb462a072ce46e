#include "launcher/report/error_file_sink.hpp"

#include "tests/support/temporary_folder.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <array>
#include <csignal>
#include <fcntl.h>
#include <fstream>
#include <iterator>
#include <sys/stat.h>
#include <unistd.h>

namespace error_file_sink_test {

using namespace ddprun;
using nlohmann::json;
using test::TemporaryFolder;

namespace {

const auto kRecorded = std::chrono::system_clock::time_point(std::chrono::seconds(1'795'227'640));
const auto kNow = kRecorded + std::chrono::milliseconds(6500);

RunFinished failed_by(const WorkerExited& cause) {
  return {.result = RunResult::failed,
          .exit_code = 1,
          .attempts = 1,
          .reason = "no restarts left",
          .failures = {cause, {.rank = 7, .exit_code = 9}}};
}

json message_of(const RunFinished& finished) {
  return json::parse(error_document(finished, kNow)).at("message");
}

/// Text that the sink returns for this event.
std::string warnings_for(const std::filesystem::path& file, const Event& event) {
  std::string warnings;
  ErrorFileSink sink(file, [&](LogLevel level, std::string_view line) {
    CHECK(level == LogLevel::warn);
    warnings += line;
  });
  sink.take(event, kNow);
  return warnings;
}

}  // namespace

TEST_SUITE("agent's error file") {
  TEST_CASE("agent's error file: the root cause is written in torchelastic's format") {
    const auto message = message_of(failed_by({.rank = 2,
                                               .exit_code = 3,
                                               .error_message = "KeyError: 'boom'",
                                               .error_traceback = "Traceback: x",
                                               .error_time = kRecorded}));
    CHECK(message == json::parse(R"({"message": "KeyError: 'boom'", "errorCode": 3,
      "extraInfo": {"py_callstack": "Traceback: x", "timestamp": "1795227640"}})"));
  }

  TEST_CASE("agent's error file: a worker without an error record is described by its exit") {
    const auto killed = message_of(failed_by({.rank = 2, .signal = SIGSEGV}));
    CHECK(killed.at("message") == "rank 2 ended with SIGSEGV");
    CHECK(killed.at("errorCode") == -SIGSEGV);
    CHECK(killed.at("extraInfo").at("timestamp") == "1795227646");
    const auto failed =
        message_of(failed_by({.rank = 2, .exit_code = 4, .last_lines = {"a", "no space left"}}));
    CHECK(failed.at("message") == "rank 2 ended with exit code 4; its last line: no space left");
  }

  TEST_CASE("agent's error file: a crash in Python is described by its innermost frame") {
    struct Row {
      std::vector<std::string> lines;
      std::string words;
    };
    const std::string current = "Current thread 0x00007f7eadfa6200 (most recent call first):";
    const std::string other = "Thread 0x00007f7eadfa6201 (most recent call first):";
    const std::string step = "  File \"train.py\", line 3 in step";
    const std::string main = "  File \"train.py\", line 9 in <module>";
    const std::string wait = "  File \"threading.py\", line 320 in wait";
    const std::vector<Row> table = {
        {{"Fatal Python error: Segmentation fault", "", current, step, main},
         "its innermost frame: File \"train.py\", line 3 in step"},
        {{current, step, main, "", other, wait},
         "its innermost frame: File \"train.py\", line 3 in step"},
        {{other, wait, "", current, "  <no Python frame>"}, "its last line:   <no Python frame>"},
        {{other, wait, "", current}, "its last line: " + current},
        {{step, main}, "its last line: " + main},
    };
    for (const auto& row : table) {
      CAPTURE(row.words);
      const auto message = message_of(failed_by({.signal = SIGSEGV, .last_lines = row.lines}));
      CHECK(message.at("message") == "rank 0 ended with SIGSEGV; " + row.words);
    }
  }

  TEST_CASE("agent's error file: an interrupted run is described by its reason and exit code") {
    const RunFinished interrupted{.result = RunResult::interrupted,
                                  .exit_code = 143,
                                  .reason = "interrupted by a signal",
                                  .failures = {{.rank = 1, .signal = SIGTERM}}};
    CHECK(message_of(interrupted).at("message") == "interrupted by a signal");
    CHECK(message_of(interrupted).at("errorCode") == 143);
  }

  TEST_CASE("agent's error file: invalid UTF-8 is replaced") {
    CHECK(message_of(failed_by({.exit_code = 1, .error_message = "a\xff"})).at("message") ==
          "a\uFFFD");
  }

  TEST_CASE("agent's error file: the file is written only at the end of a failed run") {
    const TemporaryFolder folder;
    const auto file = folder.path() / "error.json";
    CHECK(warnings_for(file, RunFinished{}).empty());
    CHECK(warnings_for(file, WorkerExited{.exit_code = 1}).empty());
    CHECK_FALSE(std::filesystem::exists(file));
    std::ofstream(file) << std::string(100'000, 'x');
    CHECK(warnings_for(file, failed_by({.rank = 2, .exit_code = 3})).empty());
    std::ifstream stream(file);
    CHECK(json::parse(stream).at("message").at("errorCode") == 3);
  }

  TEST_CASE("agent's error file: only symbolic links present at the start are followed") {
    namespace fs = std::filesystem;
    const TemporaryFolder folder;
    const auto failure = failed_by({.exit_code = 3});
    const auto place = folder.path() / "place", other = folder.path() / "other";
    for (const auto& path : {place, other}) fs::create_directory(path);
    const auto text_of = [](const fs::path& path) {
      std::ifstream stream(path);
      return std::string(std::istreambuf_iterator<char>(stream), {});
    };
    std::ofstream(other / "file") << "other";
    for (const auto& file : {place / "file", place / "new/file"}) {
      CAPTURE(file);
      std::string warning;
      fs::create_directory_symlink(place, folder.path() / "link");
      ErrorFileSink sink(folder.path() / "link" / file.lexically_relative(place),
                         [&](LogLevel, std::string_view line) { warning = line; });
      fs::remove(folder.path() / "link");
      fs::create_directory_symlink(other, folder.path() / "link");
      fs::create_directory_symlink(other, place / "new");
      sink.take(failure, kNow);
      CHECK(text_of(other / "file") == "other");
      CHECK((warning.empty() == fs::is_regular_file(place / "file")));
      fs::remove(place / "file");
      fs::remove(place / "new");
      fs::remove(folder.path() / "link");
    }
    std::string warning;
    ErrorFileSink sink(place / "file", [&](LogLevel, std::string_view line) { warning = line; });
    fs::create_symlink(other / "file", place / "file");
    sink.take(failure, kNow);
    CHECK(text_of(other / "file") == "other");
    CHECK(warning.ends_with("/file: cannot be written: Too many levels of symbolic links"));
  }

  TEST_CASE("agent's error file: a link to a pipe's descriptor can be written") {
    const TemporaryFolder folder;
    std::array<int, 2> ends{};
    REQUIRE(::pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) == 0);
    const UniqueFd reader(ends[0]), writer(ends[1]);
    const auto link = folder.path() / "link";
    std::filesystem::create_symlink("/dev/fd/" + std::to_string(writer.get()), link);
    CHECK(warnings_for(link, failed_by({.exit_code = 3})).empty());
    const auto text = read_at_most(reader.get(), 1000);
    CHECK(json::parse(text).at("message").at("errorCode") == 3);
  }

  TEST_CASE("agent's error file: an unwritable file causes a warning with its name") {
    const TemporaryFolder folder;
    const auto failure = failed_by({.exit_code = 1});
    const auto absent = folder.path() / "absent" / "error.json";
    CHECK(warnings_for(absent, failure) == "TORCHELASTIC_ERROR_FILE=" + absent.string() +
                                               ": cannot be written: No such file or directory");
    CHECK(warnings_for("/dev/full", failure) ==
          "TORCHELASTIC_ERROR_FILE=/dev/full: cannot be written: No space left on device");
    const auto pipe = folder.path() / "pipe";
    REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
    CHECK(warnings_for(pipe, failure).ends_with("cannot be written: No such device or address"));
  }
}

}  // namespace error_file_sink_test
