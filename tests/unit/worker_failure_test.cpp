// Causes of a failed worker: its error file, core dump, the kernel's log and its own state.
#include "launcher/process/core_file.hpp"
#include "launcher/process/error_file.hpp"
#include "launcher/process/exec_failure.hpp"
#include "launcher/process/exit_facts.hpp"
#include "launcher/process/kernel_wait.hpp"
#include "launcher/process/other_formats.hpp"
#include "launcher/process/proc_scan.hpp"
#include "rendezvous/base/json_nesting.hpp"
#include "tests/support/temporary_folder.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <fstream>
#include <random>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

namespace worker_failure_test {

using namespace ddprun;
namespace fs = std::filesystem;

namespace {

std::chrono::system_clock::time_point at(std::int64_t seconds) {
  return std::chrono::system_clock::time_point(std::chrono::seconds(seconds));
}

}  // namespace

TEST_SUITE("error file") {
  TEST_CASE("error file: torchelastic's formats and plain text are parsed") {
    struct Row {
      std::string text;
      ErrorReport expected;
    };
    const std::vector<Row> table = {
        {R"({"message": {"message": "KeyError: 'boom'", "extraInfo": {"py_callstack": "File a",
             "timestamp": "1795226824"}, "errorCode": 3}})",
         {.message = "KeyError: 'boom'", .traceback = "File a", .when = at(1'795'226'824)}},
        {R"({"message": {"message": "m", "extraInfo": {"timestamp": 1795226824}}})",
         {.message = "m", .traceback = "", .when = at(1'795'226'824)}},
        {R"({"message": "plain", "timestamp": 1795226824})",
         {.message = "plain", .traceback = "", .when = at(1'795'226'824)}},
        {R"({"message": "m", "timestamp": "soon"})", {.message = "m", .traceback = ""}},
        {R"({"message": "m", "timestamp": -5})", {.message = "m", .traceback = ""}},
        {R"({"message": "m", "timestamp": 1e300})", {.message = "m", .traceback = ""}},
        {R"({"message": "m", "timestamp": "nan"})", {.message = "m", .traceback = ""}},
        {R"({"message": {"message": "m"}})", {.message = "m", .traceback = ""}},
        {R"({"message": "plain"})", {.message = "plain", .traceback = ""}},
        {R"({"message": {"message": "m", "extraInfo": "none"}})",
         {.message = "m", .traceback = ""}},
        {R"({"message": {"message": "m", "extraInfo": {"code": "timeout"}}})",
         {.message = "m", .traceback = "", .code = Errc::timeout}},
        {R"({"message": {"message": "m", "extraInfo": {"code": "late"}}})",
         {.message = "m", .traceback = ""}},
        {R"({"message": {"message": 5, "extraInfo": {"py_callstack": []}}})", {}},
        {R"({"message": null})", {}},
        {R"({"other": 1})", {}},
        {"not json", {.message = "not json", .traceback = ""}},
        {R"({"message": {"mess)", {.message = R"({"message": {"mess)", .traceback = ""}},
        {std::string("a\0\x1b[31mb\n", 9), {.message = "a\\x00\\x1b[31mb\n", .traceback = ""}},
        {"", {}},
    };
    for (const auto& row : table) {
      CAPTURE(row.text);
      CHECK(parse_error_report(row.text) == row.expected);
    }
  }

  TEST_CASE("error file: any text is parsed safely") {
    const std::string seed = R"({"message": {"message": "m", "extraInfo": {"py_callstack": "t"}}})";
    std::mt19937 random(11);
    for (int i = 0; i < 20'000; ++i) {
      std::string text = seed;
      for (int change = 0; change < 4; ++change) {
        const auto at = random() % text.size();
        if (random() % 3 == 0) {
          text.erase(at, 1 + random() % 5);
        } else {
          text[at] = static_cast<char>(random() % 256);
        }
        if (text.empty()) break;
      }
      parse_error_report(text);
    }
    CHECK(parse_error_report(std::string(100'000, '[')).message.front() == '[');
  }

  TEST_CASE("error file: a document nested too deeply is read as text") {
    const auto nested = [](std::size_t depth, const std::string& open, const std::string& close) {
      std::string text = R"({"message":"m","other":)";
      for (std::size_t i = 1; i < depth; ++i) text += open;
      text += "0";
      for (std::size_t i = 1; i < depth; ++i) text += close;
      return text + "}";
    };
    const auto most = static_cast<std::size_t>(kJsonNestingMax);
    for (const auto& [open, close] : {std::pair{"[", "]"}, std::pair{R"({"a":)", "}"}}) {
      CHECK(parse_error_report(nested(most, open, close)).message == "m");
      for (const std::size_t depth : {most + 1, kErrorFileBytesMax / 8}) {
        const auto text = nested(depth, open, close);
        CHECK(parse_error_report(text).message.substr(0, 50) == text.substr(0, 50));
        CHECK(parse_error_report(text.substr(0, text.size() / 2)).message.front() == '{');
      }
    }
    const std::string brackets(100, '[');
    CHECK(parse_error_report(R"({"message":"\"\\)" + brackets + R"(","other":"]"})").message ==
          "\"\\" + brackets);
  }

  TEST_CASE("error file: a missing file yields an empty report and a huge one is read in part") {
    const test::TemporaryFolder folder;
    CHECK(read_error_report(folder.path() / "absent") == ErrorReport{});
    CHECK(read_error_report("") == ErrorReport{});
    CHECK(read_error_report(folder.path()) == ErrorReport{});
    std::ofstream(folder.path() / "huge") << std::string(2 * kErrorFileBytesMax, 'x');
    const auto cut = std::string(kErrorMessageBytesMax, 'x') + "\n... (cut off)";
    CHECK(read_error_report(folder.path() / "huge").message == cut);
  }

  TEST_CASE("error file: a link or FIFO is not read") {
    const test::TemporaryFolder folder;
    const auto other = folder.path() / "other";
    const auto file = folder.path() / "error.json";
    std::ofstream(other) << "a secret";
    CHECK(read_error_report(other).message == "a secret");
    fs::create_symlink(other, file);
    CHECK(read_error_report(file) == ErrorReport{});
    fs::remove(file);
    fs::create_hard_link(other, file);
    CHECK(read_error_report(file) == ErrorReport{});
    fs::remove(file);
    REQUIRE(::mkfifo(file.c_str(), 0600) == 0);
    CHECK(read_error_report(file) == ErrorReport{});
  }

  TEST_CASE("error file: a long message keeps its beginning and a long traceback its end") {
    const auto report_of = [](const std::string& message, const std::string& traceback) {
      return parse_error_report(R"({"message": {"message": ")" + message +
                                R"(", "extraInfo": {"py_callstack": ")" + traceback + "\"}}}");
    };
    std::string umlauts;
    while (umlauts.size() < 2 * kErrorTracebackBytesMax) umlauts += "\u00e4";
    const auto whole = report_of("x" + umlauts, umlauts + "x");
    CHECK(whole.message.starts_with("x\u00e4"));
    CHECK(whole.message.ends_with("\u00e4\n... (cut off)"));
    CHECK(whole.traceback.starts_with("... (cut off)\n\u00e4"));
    CHECK(whole.traceback.ends_with("\u00e4x"));

    std::string lines;
    while (lines.size() < 2 * kErrorTracebackBytesMax) lines += "  File t.py, line 7\\n";
    const auto tail = report_of("m", lines + "KeyError: 1").traceback;
    CHECK(tail.starts_with("... (cut off)\n  File t.py, line 7\n"));
    CHECK(tail.ends_with("\nKeyError: 1"));
    CHECK(tail.size() <= kErrorTracebackBytesMax + 20);
  }
}

TEST_SUITE("core file") {
  const CoreFacts kFacts{.pid = 42,
                         .signal = SIGSEGV,
                         .program = "/usr/bin/a_program_with_a_long_name",
                         .folder = "/jobs",
                         .host = "node1"};

  TEST_CASE("core file: the name follows from the kernel's core_pattern") {
    const auto uid = std::to_string(::getuid());
    CHECK(core_file_name("core", false, kFacts) == "/jobs/core");
    CHECK(core_file_name("core", true, kFacts) == "/jobs/core.42");
    CHECK(core_file_name("core.%p", true, kFacts) == "/jobs/core.42");
    CHECK(core_file_name("/tmp/%e-%s-%h-%u-100%%", false, kFacts) ==
          "/tmp/a_program_with_-11-node1-" + uid + "-100%");
    CHECK(core_file_name("core%", false, kFacts) == "/jobs/core");
  }

  TEST_CASE("core file: a pattern with a pipe or a time yields no name") {
    CHECK_FALSE(core_file_name("|/usr/lib/systemd/systemd-coredump %P", false, kFacts));
    CHECK_FALSE(core_file_name("core.%t", false, kFacts));
    CHECK_FALSE(core_file_name("", false, kFacts));
  }

  TEST_CASE("core file: a symbolic link is not reported like a core file") {
    const auto line_of = [](const fs::path& file) {
      std::string line;
      std::getline(std::ifstream(file) >> std::ws, line);
      return line;
    };
    const test::TemporaryFolder folder;
    auto facts = kFacts;
    facts.folder = folder.path();
    const auto name = core_file_name(line_of("/proc/sys/kernel/core_pattern"),
                                     line_of("/proc/sys/kernel/core_uses_pid") == "1", facts);
    if (!name || name->parent_path() != folder.path()) {
      MESSAGE("skipped: dumps do not go to the worker's folder");
      return;
    }
    CHECK_FALSE(find_core_file(facts));
    std::ofstream(*name) << "dump";
    CHECK(find_core_file(facts) == name);
    fs::rename(*name, folder.path() / "other");
    fs::create_symlink(folder.path() / "other", *name);
    CHECK_FALSE(find_core_file(facts));
  }
}

TEST_SUITE("out of memory") {
  TEST_CASE("out of memory: the killed process is read from the kernel's log") {
    const std::string line =
        "4,1234,5678,-;Memory cgroup out of memory: Killed process 4711 (python3) total-vm:1kB";
    CHECK(memory_kill_in(line) == 4711);
    CHECK_FALSE(memory_kill_in("6,1,2,-;Killed process "));
    CHECK_FALSE(memory_kill_in("6,1,2,-;Killed processes 4711"));
    CHECK_FALSE(memory_kill_in(""));
  }

  TEST_CASE("out of memory: only killed workers are reported") {
    OutOfMemoryKills named;
    for (const pid_t pid : {10, 11}) named.note_named(pid);
    CHECK(named.claim(10));
    CHECK_FALSE(named.claim(12));
    CHECK(named.claim(11));
    OutOfMemoryKills counted;
    counted.note_counted(2);
    CHECK(counted.claim(10));
    CHECK(counted.claim(11));
    CHECK_FALSE(counted.claim(12));
    OutOfMemoryKills both;
    for (const pid_t pid : {10, 11}) both.note_named(pid);
    both.note_counted(2);
    CHECK(both.claim(10));
    CHECK(both.claim(11));
    CHECK_FALSE(both.claim(12));
  }

  TEST_CASE("out of memory: a kill of a worker's child does not explain a worker's death") {
    OutOfMemoryKills kills;
    kills.note_named(99);
    kills.note_counted(1);
    CHECK_FALSE(kills.claim(10));
    kills.note_counted(1);  // its line is not in the log yet
    CHECK(kills.claim(11));
    CHECK_FALSE(kills.claim(12));
  }

  TEST_CASE("out of memory: both cgroup versions count kills under the same key") {
    CHECK(memory_kills_in("low 0\nhigh 0\nmax 9\noom 2\noom_kill 3\noom_group_kill 1\n") == 3);
    CHECK(memory_kills_in("oom_kill_disable 0\nunder_oom 0\noom_kill 7\n") == 7);
    CHECK(memory_kills_in("") == 0);
    CHECK(memory_kills_in("oom_kill") == 0);
  }
}

TEST_SUITE("start failure") {
  TEST_CASE("start failure: every step and reason has a message") {
    struct Row {
      StartFailure failure;
      std::string expected;
    };
    const std::vector<Row> table = {
        {{StartStep::exec, ENOENT}, "cannot start /no/such: the file does not exist"},
        {{StartStep::exec, E2BIG}, "too long"},
        {{StartStep::exec, ETXTBSY}, "open for writing"},
        {{StartStep::exec, ELOOP}, "symbolic links"},
        {{StartStep::exec, ELIBBAD}, "dynamic loader"},
        {{StartStep::exec, ENOMEM}, "memory"},
        {{StartStep::exec, ETIMEDOUT}, "file system"},
        {{StartStep::exec, EIO}, "Input/output error"},
        {{StartStep::fork, EAGAIN}, "fork: Resource temporarily unavailable ("},
        {{StartStep::thread, EAGAIN},
         "cannot watch the workers: thread: Resource temporarily unavailable ("},
        {{StartStep::thread, EPERM}, "must allow clone3"},
        {{StartStep::fork, EMFILE}, "fork: Too many open files (ulimit -n is "},
        {{StartStep::fork, ENFILE}, "fs.file-max"},
        {{StartStep::fork, ENOMEM}, "Cannot allocate memory (see the free memory and memory.max"},
        {{StartStep::folder, EACCES}, "cannot enter the folder /home"},
        {{StartStep::affinity, EINVAL}, "cpuset"},
        {{StartStep::cgroup, EBUSY}, "cgroup: Device or resource busy"},
        {{StartStep::session, EPERM}, "setsid: Operation not permitted"},
        {{StartStep::user, EPERM}, "user: Operation not permitted"},
    };
    for (const auto& row : table) {
      const auto text = describe_start_failure(row.failure, "/no/such", "/home");
      CAPTURE(text);
      CHECK(text.find(row.expected) != std::string::npos);
    }
  }

  TEST_CASE("worker start: an entry of binfmt_misc executes what its magic or extension matches") {
    const std::string magic = "enabled\ninterpreter /bin/true\nflags: \noffset 2\nmagic dead\n";
    const std::string extension = "enabled\ninterpreter /bin/true\nflags: P\nextension .exe\n";
    struct Row {
      std::string entry;
      std::string name;
      std::string head;
      bool is_executed;
    };
    const std::vector<Row> table = {
        {magic, "a", "MZ\xde\xad more", true},
        {magic, "a", "MZ\xde\xae", false},
        {magic, "a", "\xde\xad", false},
        {magic, "a", "MZ\xde", false},
        {magic, "a", "", false},
        {magic + "mask fff0\n", "a", "MZ\xde\xa1", true},
        {magic + "mask fff0\n", "a", "MZ\xde\xb1", false},
        {magic + "mask ff\n", "a", "MZ\xde\xad", false},
        {"dis" + magic.substr(2), "a", "MZ\xde\xad", false},
        {extension, "program.exe", "", true},
        {extension, "program.exe.txt", "", false},
        {extension, "exe", "", false},
        {"", "a", "text", false},
    };
    for (const auto& row : table) {
      CAPTURE(row.entry);
      CAPTURE(row.name);
      CHECK(is_executed_by(row.entry, row.name, row.head) == row.is_executed);
    }
  }

  TEST_CASE("worker start: entries of binfmt_misc are read from its folder") {
    const test::TemporaryFolder folder;
    const auto executes = [&](const std::string& head) {
      return has_other_format("program", head, folder.path());
    };
    std::ofstream(folder / "status") << "enabled\n";
    std::ofstream(folder / "qemu") << "enabled\noffset 0\nmagic 7f45\n";
    CHECK(
        executes("\x7f"
                 "ELF"));
    CHECK_FALSE(executes("text"));
    // It may have been removed while it was read.
    std::ofstream(folder / "removed") << "";
    CHECK(executes("text"));
    CHECK_FALSE(has_other_format("program", "text", folder / "missing"));
  }

  TEST_CASE("worker start: a fork error names ulimit -u or otherwise the sysctls") {
    rlimit limit{};
    REQUIRE(::getrlimit(RLIMIT_NPROC, &limit) == 0);
    const auto message = [](rlim_t processes, rlim_t most) {
      const rlimit changed{.rlim_cur = processes, .rlim_max = most};
      REQUIRE(::setrlimit(RLIMIT_NPROC, &changed) == 0);
      return describe_start_failure({StartStep::fork, EAGAIN}, "/no/such", "/home");
    };
    const auto limited = message(std::min<rlim_t>(limit.rlim_max, 60'000), limit.rlim_max);
    std::string unlimited;
    if (limit.rlim_max == RLIM_INFINITY) unlimited = message(RLIM_INFINITY, limit.rlim_max);
    ::setrlimit(RLIMIT_NPROC, &limit);
    CHECK(limited.find("ulimit -u is ") != std::string::npos);
    if (unlimited.empty()) return;
    CHECK(unlimited.find("sysctl kernel.threads-max and kernel.pid_max") != std::string::npos);
    CHECK(unlimited.find("ulimit") == std::string::npos);
  }

  TEST_CASE("worker start: a thread error names the memory limits that are set") {
    rlimit limit{};
    REQUIRE(::getrlimit(RLIMIT_DATA, &limit) == 0);
    const auto message = [&](rlim_t bytes) {
      const rlimit changed{.rlim_cur = std::min(bytes, limit.rlim_max), .rlim_max = limit.rlim_max};
      REQUIRE(::setrlimit(RLIMIT_DATA, &changed) == 0);
      return describe_start_failure({StartStep::thread, EAGAIN}, "/no/such", "/home");
    };
    // Above all mappings of the address sanitizer, which may need more memory during the call.
    const auto limited = message(rlim_t{1} << 62), unlimited = message(RLIM_INFINITY);
    ::setrlimit(RLIMIT_DATA, &limit);
    if (limited.find("pids limit") != std::string::npos) return;
    CHECK(limited.find("; RLIMIT_DATA is ") != std::string::npos);
    if (limit.rlim_max == RLIM_INFINITY) CHECK(unlimited.find("RLIMIT_DATA") == std::string::npos);
    CHECK(unlimited.find("unlimited") == std::string::npos);
  }
}

TEST_SUITE("kernel wait") {
  TEST_CASE("kernel wait: system call and first argument are parsed") {
    struct Row {
      std::string text;
      std::optional<SystemCall> expected;
    };
    const std::vector<Row> table = {
        {"0 0x3 0x7ffc0d3e5c20 0x1 0x0 0x0 0x0 0x7ffc0d3e5be8 0x7f5867ecc2ad\n", SystemCall{0, 3}},
        {"257 0xffffffffffffff9c 0x7f\n", SystemCall{257, -1}},
        {"-1 0x7ffc0d3e5be8 0x7f5867ecc2ad\n", std::nullopt},
        {"running\n", std::nullopt},
        {"0\n", std::nullopt},
        {"x 0x3\n", std::nullopt},
        {"0x 0x3\n", std::nullopt},
        {"", std::nullopt}};
    for (const auto& row : table) {
      CAPTURE(row.text);
      CHECK(parse_system_call(row.text) == row.expected);
    }
  }

  TEST_CASE("kernel wait: only a limited number of functions of a kernel stack is read") {
    CHECK(parse_kernel_stack("").empty());
    CHECK(parse_kernel_stack("no stack\n[<0>] \n").empty());
    CHECK(parse_kernel_stack("[<0>] request_wait_answer+0x1a/0x220 [fuse]\n[<0>] vfs_read+0x2/0x3\n"
                             "[<0>] bare\n") ==
          std::vector<std::string>{"request_wait_answer", "vfs_read", "bare"});
    std::string deep;
    for (int i = 0; i < 100; ++i) deep += "[<0>] f+0x1/0x2\n";
    CHECK(parse_kernel_stack(deep).size() == kStackFunctionsMax);
  }

  TEST_CASE("kernel wait: the description contains the parts that can be read") {
    struct Row {
      KernelWait wait;
      std::string expected;
    };
    const std::vector<Row> table = {
        {{}, "just ended"},
        {{.state = 'R'}, "state R"},
        {{.state = 'D'}, "state D (uninterruptible sleep)"},
        {{.state = 'D', .system_call = "read", .file = "/a", .function = "f", .stack = {"f", "g"}},
         "state D (uninterruptible sleep) in read of /a, waiting in f, kernel stack: f < g"},
        {{.state = 'D', .system_call = "system call 999"},
         "state D (uninterruptible sleep) in system call 999"}};
    for (const auto& row : table) CHECK(describe(row.wait) == row.expected);
    CHECK(kernel_wait(::getpid()).state == 'R');
    CHECK(after_sigkill(std::chrono::milliseconds(5100)) == "5.1 s after SIGKILL");
    CHECK(after_sigkill(std::chrono::seconds(65)) == "65 s after SIGKILL");
  }
}

TEST_SUITE("process state") {
  TEST_CASE("process state: any process name is parsed correctly") {
    const auto state = parse_process_state("7 (a) Z 1) (b)) D 1 7 7 0 -1 4194564 0 0");
    CHECK(state.letter == 'D');
    CHECK(state.flags == 4194564);
    CHECK(state.is_exiting());
    CHECK_FALSE(parse_process_state("7 (a) S 1 7 7 0 -1 4194560 0").is_exiting());
    CHECK(parse_process_state("7 (a) Z 1 7 7 0 -1 4194560 0").is_exiting());
    std::string text = "7 (a) Z 1 7 7 0 -1 4194560";
    for (int field = 10; field < 52; ++field) text += " 18446744073709551615";
    CHECK_FALSE(parse_process_state(text).exit_status);
    CHECK(parse_process_state(text + " 768\n").exit_status == 768);
  }

  TEST_CASE("process state: invalid text yields no state") {
    for (const char* text : {"", "7", "7 (a", "7 (a)", "7 (a) S", "7 (a) S x"}) {
      CHECK(parse_process_state(text).letter == '\0');
      CHECK(parse_process_state(text).is_exiting());
    }
    CHECK_FALSE(process_state(::getpid()).is_exiting());
  }

  TEST_CASE("process state: the size of the environment is known only after execve() completes") {
    struct Row {
      std::string code, begin, end;
      std::optional<std::size_t> expected;
    };
    const std::vector<Row> table = {
        {"4096", "1000", "1250", 250}, {"4096", "1000", "1000", 0},
        {"0", "0", "0", std::nullopt}, {"0", "1000", "1000", std::nullopt},
        {"1", "0", "0", std::nullopt}, {"4096", "1000", "", std::nullopt},
    };
    for (const auto& row : table) {
      std::string text = "7 (a) S 1 7 7 0 -1 4194560";
      for (int field = 10; field < 26; ++field) text += " 5";
      text += " " + row.code;
      for (int field = 27; field < 50; ++field) text += " 6";
      text += " " + row.begin + " " + row.end;
      CAPTURE(text);
      CHECK(parse_process_state(text).environment_bytes == row.expected);
    }
    CHECK(process_state(::getpid()).environment_bytes.value_or(0) > 0);
  }

  TEST_CASE("process state: ignored signals are parsed") {
    const std::string status =
        "Name:\tSigIgn:\nSigBlk:\tffff\nSigIgn:\t0000000001004000\nSigCgt:\t0\n";
    CHECK(status_ignores(status, SIGTERM));
    CHECK_FALSE(status_ignores(status, SIGINT));
    for (const char* text : {"", "SigIgn", "\nSigIgn:\t", "\nSigIgn:\tx", "\nSigIgn:\t-1"}) {
      CHECK_FALSE(status_ignores(text, SIGTERM));
    }
    CHECK_FALSE(ignores(::getpid(), SIGKILL));
  }

  TEST_CASE("process state: user_of() distinguishes root and other users and unknown ones") {
    const auto status = [](const std::string& users, const std::string& groups) {
      return "Name:\tUid:\t9\nTgid:\t5\nUid:\t" + users + "\nGid:\t" + groups + "\nFDSize:\t64\n";
    };
    const std::pair<std::string, std::optional<UserIds>> table[] = {
        {status("0\t0\t0\t0", "8\t9\t7\t7"), UserIds{0, 7}},
        {status("5\t5\t5\t5", "7\t7\t7\t7"), UserIds{5, 7}},
        {status("5\t0\t0\t0", "7\t0\t0\t0"), UserIds{5, 7}},
        {status("0\t5\t0\t5", "0\t7\t0\t7"), UserIds{5, 7}},
        {status("0\t0\t5\t0", "0\t0\t7\t0"), UserIds{5, 7}},
        {status("4294967294\t1\t1\t1", "0\t0\t0\t0"), UserIds{4294967294U, 0}},
        {status("5\t5", "7\t7\t7\t7"), std::nullopt},
        {status("x\t5\t5\t5", "7\t7\t7\t7"), std::nullopt},
        {status("0\t0\t0\t0", "7\t7"), std::nullopt},
        {"Uid:\t0\t0\t0\t0\n", std::nullopt},
        {"", std::nullopt},
    };
    for (const auto& [text, user] : table) CHECK(user_of(text) == user);
    CHECK(user_of(::getpid()) == UserIds{::getuid(), ::getgid()});
    CHECK_FALSE(user_of(pid_t{-1}));
  }

  TEST_CASE("process state: only a limited part of a memory map is read") {
    CHECK(memory_map(::getpid()).size() < kMapsBytesMax);
    // Neighbours with different rights stay separate mappings, with a line of 49 bytes each.
    constexpr std::size_t kPages = 44'000;
    const auto page = static_cast<std::size_t>(::getpagesize());
    constexpr int kPrivate = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    void* const pages = ::mmap(nullptr, kPages * page, PROT_NONE, kPrivate, -1, 0);
    REQUIRE(pages != MAP_FAILED);
    bool is_divided = true;
    for (std::size_t i = 0; i < kPages; i += 2) {
      is_divided =
          is_divided && ::mprotect(static_cast<char*>(pages) + i * page, page, PROT_READ) == 0;
    }
    CHECK(is_divided);
    CHECK(memory_map(::getpid()).size() == kMapsBytesMax);
    ::munmap(pages, kPages * page);
  }
}

}  // namespace worker_failure_test
