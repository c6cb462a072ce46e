// The real launcher with real workers: their output and the end of runs.
#include "tests/support/launch.hpp"

#include "tests/support/json_lines.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <unistd.h>

namespace launch_test {

using ddprun::test::contains;
using ddprun::test::count;
using ddprun::test::in_bin;
using ddprun::test::launch;
using ddprun::test::Program;
using ddprun::test::read_file;
using ddprun::test::read_json_lines;
using ddprun::test::run_program;
using ddprun::test::TemporaryFolder;
using ddprun::test::wait_until;
using ddprun::test::write_file;

namespace {

namespace fs = std::filesystem;

/// A memory cgroup with a limit, if this user may create one.
class LimitedMemory {
 public:
  explicit LimitedMemory(const std::string& limit) {
    const fs::path version_1 = "/sys/fs/cgroup/memory";
    const bool is_version_1 = fs::exists(version_1);
    folder_ = (is_version_1 ? version_1 : fs::path("/sys/fs/cgroup")) /
              ("test-of-ddprun-" + std::to_string(::getpid()));
    std::error_code error;
    if (!fs::create_directory(folder_, error)) return;
    const auto file = folder_ / (is_version_1 ? "memory.limit_in_bytes" : "memory.max");
    is_there_ = fs::exists(file);
    if (is_there_) write_file(file, limit);
  }
  LimitedMemory(const LimitedMemory&) = delete;
  LimitedMemory& operator=(const LimitedMemory&) = delete;
  ~LimitedMemory() { ::rmdir(folder_.c_str()); }

  bool is_there() const { return is_there_; }
  std::string processes() const { return folder_ / "cgroup.procs"; }

 private:
  fs::path folder_;
  bool is_there_ = false;
};

}  // namespace

TEST_SUITE("launch") {
  TEST_CASE("launch: a run succeeds if all workers succeed") {
    const auto result =
        run_program({in_bin("ddprun"), "--nproc_per_node=2", "--no_python", "/bin/true"});
    CHECK(result.exit_code == 0);
    CHECK_FALSE(contains(result.output, "warning"));
  }

  TEST_CASE("launch: each worker gets its rank in the environment and an output prefix") {
    const auto result = run_program(
        launch({"--nproc-per-node", "2", "--role", "trainer", "--max-restarts=3"},
               "echo rank=$RANK/$WORLD_SIZE local=$LOCAL_RANK/$LOCAL_WORLD_SIZE "
               "group=$GROUP_RANK/$GROUP_WORLD_SIZE "
               "role=$ROLE_RANK/$ROLE_WORLD_SIZE/$ROLE_NAME "
               "restart=$TORCHELASTIC_RESTART_COUNT/$TORCHELASTIC_MAX_RESTARTS "
               "agent_store=$TORCHELASTIC_USE_AGENT_STORE omp=$OMP_NUM_THREADS at=$MASTER_ADDR"));
    CHECK(result.exit_code == 0);
    for (const std::string rank : {"0", "1"}) {
      CHECK(contains(result.output,
                     "[trainer" + rank + "]:rank=" + rank + "/2 local=" + rank +
                         "/2 group=0/1 role=" + rank +
                         "/2/trainer restart=0/3 agent_store=True omp=1 at=127.0.0.1\n"));
    }
  }

  TEST_CASE("launch: a failed run exits with 1 or with --exit_code=worker with the worker's code") {
    const std::string script = "if [ $RANK = 1 ]; then exit 7; else sleep 1000; fi";
    CHECK(run_program(launch({"--nproc_per_node=3"}, script)).exit_code == 1);
    CHECK(run_program(launch({"--nproc_per_node=3", "--exit_code=worker"}, script)).exit_code == 7);
    const auto killed =
        run_program(launch({"--nproc_per_node=2", "--exit_code=worker"},
                           "if [ $RANK = 1 ]; then kill -SEGV $$; else sleep 1000; fi"));
    CHECK(killed.exit_code == 128 + SIGSEGV);
    CHECK(contains(killed.output, "SIGSEGV"));
    CHECK(contains(killed.output, "Root cause"));
  }

  TEST_CASE("launch: the report states that ddprun forwarded the fatal signal") {
    const std::string end = "SIGUSR1 (forwarded by ddprun)";
    Program run(launch({}, "echo ready; exec sleep 1000"));
    REQUIRE(run.read_until_contains("]:ready\n"));
    run.signal(SIGUSR1);
    CHECK(run.wait() == 1);
    CHECK(contains(run.output(), " was killed by " + end + "; --max_restarts is 0\n"));
    CHECK(contains(run.output(), "  ended     : killed by signal 10, " + end + "\n"));
    const auto by_itself = run_program(launch({}, "kill -USR1 $$"));
    CHECK(by_itself.exit_code == 1);
    CHECK(contains(by_itself.output, "  ended     : killed by signal 10, SIGUSR1\n"));
  }

  TEST_CASE("launch: a log folder without redirects and tee stays empty") {
    const TemporaryFolder folder;
    const auto logs = "--log_dir=" + folder / "logs";
    const auto empty = run_program(launch({logs, "--max_restarts=1"}, "exit 3"));
    CHECK(empty.exit_code == 1);
    CHECK_FALSE(contains(empty.output, folder / "logs"));
    CHECK(std::filesystem::is_empty(folder / "logs"));
    const auto failed = run_program(
        launch({logs}, "echo '{\"message\": \"boom\"}' > $TORCHELASTIC_ERROR_FILE; exit 3"));
    CHECK(contains(failed.output, "  logs      : " + folder / "logs"));
    CHECK_FALSE(std::filesystem::is_empty(folder / "logs"));
    CHECK(contains(run_program(launch({logs, "-r1"}, "true")).output,
                   ", logs in " + folder / "logs"));
  }

  TEST_CASE("launch: failed attempts are repeated until no restarts are left") {
    const TemporaryFolder folder;
    const std::string script =
        "echo attempt $TORCHELASTIC_RESTART_COUNT; [ $TORCHELASTIC_RESTART_COUNT = 2 ]";
    const auto enough = run_program(launch({"--nproc_per_node=1", "--max_restarts=2"}, script));
    CHECK(enough.exit_code == 0);
    for (const std::string attempt : {"0", "1", "2"}) {
      CHECK(contains(enough.output, "[default0]:attempt " + attempt + "\n"));
    }
    const auto too_few = run_program(launch({"--nproc_per_node=1", "--max_restarts=1"}, script));
    CHECK(too_few.exit_code == 1);
    CHECK_FALSE(contains(too_few.output, "attempt 2"));
  }

  TEST_CASE("launch: events are written as JSON lines") {
    const TemporaryFolder folder;
    const auto result = run_program(
        launch({"--nproc_per_node=2", "--max_restarts=1", "--events", folder / "events"},
               "[ $RANK = 0 ] || [ $TORCHELASTIC_RESTART_COUNT = 1 ] || exit 3"));
    CHECK(result.exit_code == 0);
    const auto events = read_json_lines(folder / "events");
    std::map<std::string, int> kinds;
    for (const auto& event : events) ++kinds[event.at("event")];
    CHECK(kinds["run_started"] == 1);
    CHECK(kinds["attempt_started"] == 2);
    CHECK(kinds["worker_started"] == 4);
    CHECK(kinds["worker_exited"] == 4);
    CHECK(kinds["restart_decided"] == 1);
    CHECK(kinds["run_finished"] == 1);
    CHECK(events.back().at("event") == "run_finished");
  }

  TEST_CASE("launch: the report states that the OOM killer has killed a worker") {
    const LimitedMemory memory("100M");
    if (!memory.is_there()) {
      MESSAGE("no memory cgroup can be made here");
      return;
    }
    // tail keeps an endless line in memory.
    const auto result =
        run_program({"/bin/sh", "-c", "echo $$ > " + memory.processes() + "; exec \"$@\"", "sh",
                     in_bin("ddprun"), "--no_python", "/usr/bin/tail", "/dev/zero"});
    INFO(result.output);
    CHECK(result.exit_code == 1);
    CHECK(contains(result.output, "SIGKILL (out of memory)"));
  }

  TEST_CASE("launch: a run succeeds with closed standard streams") {
    const TemporaryFolder folder;
    const auto result = run_program(
        {"/bin/sh", "-c", "exec \"$@\" 0<&- 1>&- 2>&-", "sh", in_bin("ddprun"), "--log_dir",
         folder.path(), "-r3", "--nproc_per_node=2", "--no_python", "/bin/sh", "-c", "echo fine"});
    CHECK(result.exit_code == 0);
    for (const auto& entry : fs::recursive_directory_iterator(folder.path())) {
      if (entry.path().filename() == "stdout.log") CHECK(read_file(entry.path()) == "fine\n");
    }
  }

  TEST_CASE("launch: a script with a missing interpreter is rejected before any start") {
    const TemporaryFolder folder;
    for (const std::string end : {"", "\r"}) {
      write_file(folder / "script", "#!/no/such/interpreter" + end + "\n", true);
      const auto result =
          run_program({in_bin("ddprun"), "--nproc_per_node=2", "--no_python", folder / "script"});
      CHECK(result.exit_code == 2);
      CHECK(contains(result.output,
                     "ddprun: " + (folder / "script") + ": its " + (end.empty() ? "" : "first")));
      CHECK(contains(result.output, "'/no/such/interpreter'"));
      CHECK(std::count(result.output.begin(), result.output.end(), '\n') == 2);
    }
  }

  TEST_CASE("launch: a file that is not a program is rejected before the start") {
    const TemporaryFolder folder;
    for (const auto& [content, problem] :
         {std::pair{"no program\n", "it is neither a program nor a script"},
          std::pair{"", "the file is empty"},
          std::pair{"\x7f"
                    "ELF",
                    "it is neither a program nor a script"}}) {
      write_file(folder / "file", content, true);
      for (const auto* option : {"--dry_run", "--no_python"}) {
        const auto result = run_program({in_bin("ddprun"), option, "--no_python", folder / "file"});
        CHECK(result.exit_code == 2);
        CHECK(contains(result.output, "ddprun: " + (folder / "file") + ": " + problem));
      }
    }
  }

  TEST_CASE("launch: a program that cannot be executed ends the run without restarts") {
    const TemporaryFolder folder;
    write_file(folder / "program", read_file(in_bin("ddprun")).substr(0, 100), true);
    const auto result = run_program({in_bin("ddprun"), "--max_restarts=5", "--events",
                                     folder / "events", "--no_python", folder / "program"});
    CHECK(result.exit_code == 1);
    CHECK(contains(result.output, "it is a damaged program or a library"));
    int attempts = 0;
    for (const auto& event : read_json_lines(folder / "events"))
      attempts += event.at("event") == "attempt_started" ? 1 : 0;
    CHECK(attempts == 1);
  }

  TEST_CASE("launch: usage errors exit with 2 and suggest the nearest option") {
    const auto misspelt = run_program({in_bin("ddprun"), "--max_restart_=2", "/bin/true"});
    CHECK(misspelt.exit_code == 2);
    CHECK(contains(misspelt.output, "max_restarts"));
    CHECK(run_program({in_bin("ddprun")}).exit_code == 2);
    CHECK(run_program({in_bin("ddprun"), "--nproc_per_node=0", "/bin/true"}).exit_code == 2);
    CHECK(run_program({in_bin("ddprun"), "no-such-program-anywhere"}).exit_code == 2);
    const auto nodes = run_program({in_bin("ddprun"), "--nnodes=2", "/bin/true"});
    CHECK(nodes.exit_code == 2);
    CHECK(contains(nodes.output, "master_addr"));
  }

  TEST_CASE("launch: each attempt and rank has its own log file") {
    const TemporaryFolder folder;
    // In the first attempt rank 0 fails once rank 1 has written its output.
    const std::string script =
        "echo out $RANK; echo err $RANK >&2; [ $TORCHELASTIC_RESTART_COUNT = 1 ] && exit; "
        "[ $RANK = 1 ] && { touch $WRITTEN; sleep 1000; }; "
        "until [ -e $WRITTEN ]; do sleep 0.01; done; exit 1";
    const auto arguments = launch({"--nproc_per_node=2", "--max_restarts=1", "-r", "1", "-t", "0:2",
                                   "--log_dir", folder / "logs"},
                                  script);
    const auto result = run_program(arguments, {{"WRITTEN", folder / "written"}});
    INFO(result.output);
    CHECK(result.exit_code == 0);
    std::vector<std::string> files;
    for (const auto& entry : fs::recursive_directory_iterator(folder / "logs")) {
      if (entry.path().filename() == "stdout.log") files.push_back(read_file(entry.path()));
    }
    std::sort(files.begin(), files.end());
    CHECK(files == std::vector<std::string>{"out 0\n", "out 0\n", "out 1\n", "out 1\n"});
    CHECK_FALSE(contains(result.output, "]:out"));
    CHECK(contains(result.output, "[default0]:err 0\n"));
  }

  TEST_CASE("launch: all processes of a killed agent end within a second") {
    Program program(
        launch({"--nproc_per_node=2"},
               "setsid sleep 1000 & sleep 1000 & echo up; trap '' TERM INT HUP; sleep 1000"));
    REQUIRE(program.read_until(
        [](std::string_view output) { return count(std::string(output), "up") == 2; }));
    program.signal(SIGKILL);
    CHECK(program.wait() == -SIGKILL);
    CHECK(program.leaves_no_process());
  }

  TEST_CASE("launch: descendants in other sessions are killed") {
    Program program(launch({"--nproc_per_node=2"}, "setsid sleep 1000 & exit 0"));
    CHECK(program.wait() == 0);
    CHECK(program.leaves_no_process());
  }

  TEST_CASE("launch: a restart is not affected by processes killed after the last attempt") {
    const auto result = run_program(
        launch({"--max_restarts=3"}, "setsid sleep 1000 & [ $TORCHELASTIC_RESTART_COUNT = 3 ]"));
    INFO(result.output);
    CHECK(result.exit_code == 0);
    CHECK_FALSE(contains(result.output, "SIGKILL"));
  }

  TEST_CASE("launch: a stop signal is forwarded to workers so that they can clean up") {
    for (const int signal : {SIGINT, SIGTERM}) {
      Program program(
          launch({"--nproc_per_node=2"},
                 "trap 'echo bye; exit 0' TERM INT; echo up; while :; do sleep 0.05; done"));
      REQUIRE(program.read_until(
          [](std::string_view output) { return count(std::string(output), "up") == 2; }));
      program.signal(signal);
      CHECK(program.wait() == 128 + signal);
      CHECK(count(program.output(), "]:bye") == 2);
      CHECK(program.leaves_no_process());
    }
  }

  TEST_CASE("launch: a stop signal sent twice is forwarded to workers once") {
    const TemporaryFolder folder;
    const auto has_all = [](const std::string& word) {
      return [word](std::string_view output) { return count(std::string(output), word) == 2; };
    };
    Program program(launch({"--nproc_per_node=2"},
                           "trap 'echo got; until [ -e $GO ]; do sleep 0.01; done; echo saved; "
                           "exit 0' TERM; echo up; while :; do sleep 0.01; done"),
                    {{"GO", folder / "go"}});
    REQUIRE(program.read_until(has_all("]:up")));
    program.signal(SIGTERM);
    REQUIRE(program.read_until(has_all("]:got")));
    program.signal(SIGTERM);
    REQUIRE(program.read_until_contains("SIGTERM: already stopping the workers"));
    write_file(folder / "go", "");
    CHECK(program.wait() == 128 + SIGTERM);
    CHECK(count(program.output(), "]:saved") == 2);
    CHECK(count(program.output(), "]:got") == 2);
    CHECK(program.leaves_no_process());
  }

  TEST_CASE("launch: a second interrupt kills workers that ignore the first") {
    Program program(
        launch({"--nproc_per_node=2"}, "trap '' TERM INT; echo up; while :; do sleep 0.05; done"));
    REQUIRE(program.read_until(
        [](std::string_view output) { return count(std::string(output), "up") == 2; }));
    program.signal(SIGINT);
    REQUIRE(program.read_until_contains("at most 30 s; send it again to kill"));
    program.signal(SIGINT);
    CHECK(program.wait() == 128 + SIGINT);
    CHECK(program.leaves_no_process());
  }

  TEST_CASE("launch: workers that ignore the signal are killed after the shutdown timeout") {
    Program program(launch({"--nproc_per_node=2", "--shutdown_timeout=1"},
                           "trap '' TERM; echo up; while :; do sleep 0.05; done"));
    REQUIRE(program.read_until(
        [](std::string_view output) { return count(std::string(output), "up") == 2; }));
    program.signal(SIGTERM);
    CHECK(program.wait() == 128 + SIGTERM);
    CHECK(program.leaves_no_process());
  }

  TEST_CASE("launch: user signals are forwarded and the run continues") {
    Program program(launch({"--nproc_per_node=2"},
                           "trap 'echo got; exit 0' USR1; echo up; while :; do sleep 0.05; done"));
    REQUIRE(program.read_until(
        [](std::string_view output) { return count(std::string(output), "up") == 2; }));
    program.signal(SIGUSR1);
    CHECK(program.wait() == 0);
    CHECK(count(program.output(), "]:got") == 2);
  }

  TEST_CASE("launch: workers and agent continue after the console is closed") {
    const TemporaryFolder folder;
    Program program(launch({"--nproc_per_node=2"},
                           "echo up; until [ -e $GO ]; do sleep 0.01; done; "
                           "echo more; echo more >&2; touch $GO.$RANK"),
                    {{"GO", folder / "go"}});
    REQUIRE(program.read_until(
        [](std::string_view output) { return count(std::string(output), "up") == 2; }));
    program.stop_reading();
    write_file(folder / "go", "");
    CHECK(program.wait() == 0);
    CHECK(std::filesystem::exists(folder / "go.0"));
    CHECK(std::filesystem::exists(folder / "go.1"));
  }

  TEST_CASE("launch: the temporary folder of an attempt is removed when the attempt ends") {
    const TemporaryFolder folder;
    const auto result = run_program(
        launch({"--max_restarts=3"}, "ls $TMPDIR/*; [ $TORCHELASTIC_RESTART_COUNT = 3 ]"),
        {{"TMPDIR", folder.path()}});
    CHECK(result.exit_code == 0);
    CHECK(contains(result.output, "]:attempt_3\n"));
    CHECK(count(result.output, "]:attempt_0\n") == 1);
  }

  TEST_CASE("launch: a signal at any time of the start ends the run and leaves nothing") {
    for (int moment = 0; moment < 40; ++moment) {
      CAPTURE(moment);
      const TemporaryFolder folder;
      Program program(launch({"--nproc_per_node=4"}, "sleep 1000"), {{"TMPDIR", folder.path()}});
      // From before main to after the workers' exec.
      wait_until([] { return false; }, std::chrono::microseconds(500 * moment));
      program.signal(SIGTERM);
      const int status = program.wait();
      CHECK((status == -SIGTERM || status == 128 + SIGTERM));
      CHECK(program.leaves_no_process());
      CHECK(std::filesystem::is_empty(folder.path()));
    }
  }

  TEST_CASE("launch: further signals during the end do not change exit code or leave files") {
    for (int round = 0; round < 20; ++round) {
      const TemporaryFolder folder;
      Program program(launch({}, "echo up; sleep 1000"), {{"TMPDIR", folder.path()}});
      REQUIRE(program.read_until_contains("]:up"));
      const auto stat = "/proc/" + std::to_string(program.pid()) + "/stat";
      const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(60);
      while (!contains(read_file(stat), ") Z ") && std::chrono::steady_clock::now() < until) {
        program.signal(SIGTERM);
      }
      CHECK(program.wait() == 128 + SIGTERM);
      CHECK(program.leaves_no_process());
      CHECK(std::filesystem::is_empty(folder.path()));
    }
  }

  TEST_CASE("launch: a run under nohup continues after SIGHUP") {
    auto arguments = launch({}, "trap 'exit 0' USR1; echo up; while :; do sleep 0.05; done");
    arguments.insert(arguments.begin(), "nohup");
    Program program(arguments);
    REQUIRE(program.read_until_contains("up"));
    program.signal(SIGHUP);
    program.signal(SIGUSR1);
    CHECK(program.wait() == 0);
    CHECK_FALSE(contains(program.output(), "SIGHUP"));
  }

  TEST_CASE("launch: a low limit of open files applies to workers but not to their number") {
    auto arguments = launch({"--nproc_per_node=60"}, "ulimit -Sn");
    arguments.insert(arguments.begin(), {"/bin/sh", "-c", "ulimit -Sn 64; exec \"$@\"", "sh"});
    const auto result = run_program(arguments);
    CHECK(result.exit_code == 0);
    CHECK(count(result.output, "]:64\n") == 60);
  }

  TEST_CASE("launch: a worker that hangs after it announced its failure is killed") {
    const TemporaryFolder folder;
    const auto result =
        run_program({in_bin("ddprun"), "--shutdown_timeout=0.2", "--no_python",
                     in_bin("probe_worker"), "announce-exit", "3", folder / "ready"});
    CHECK(result.exit_code == 1);
    CHECK(contains(result.output, "killed rank 0"));
  }
}

}  // namespace launch_test
