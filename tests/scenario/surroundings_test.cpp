// The launcher with a missing requirement, or one that is removed during a run.
#include "tests/support/launch.hpp"
#include "tests/support/skip.hpp"

#include <doctest/doctest.h>

#include <csignal>
#include <filesystem>
#include <iterator>

namespace surroundings_test {

using ddprun::test::contains;
using ddprun::test::in_bin;
using ddprun::test::Program;
using ddprun::test::read_file;
using ddprun::test::run_program;
using ddprun::test::skip;
using ddprun::test::TemporaryFolder;
using ddprun::test::write_file;

TEST_SUITE("surroundings") {
  TEST_CASE("surroundings: a lack of descriptors is reported with the limit to raise") {
    for (const std::string limit : {"40", "12", "8"}) {
      CAPTURE(limit);
      const TemporaryFolder folder;
      const auto events = folder / "events";
      const bool reaches_workers = limit == "40";
      std::vector<std::string> command = {"/bin/sh", "-c", "ulimit -n " + limit + "; exec \"$@\"",
                                          "sh", in_bin("ddprun")};
      if (reaches_workers) command.push_back("--events=" + events);
      command.insert(command.end(), {"--nproc_per_node=24", "/bin/true"});
      const auto result = run_program(command);
      INFO(result.output);
      CHECK(result.exit_code == 1);
      CHECK(contains(result.output, "ulimit -n"));
      CHECK_FALSE(contains(result.output, "boost"));
      CHECK(contains(result.output, "; retrying for up to 10 s") == reaches_workers);
      if (reaches_workers) CHECK(contains(read_file(events), "\"worker_not_started\""));
    }
  }

  TEST_CASE("surroundings: a missing or full TMPDIR is reported") {
    const std::vector<std::string> mounts = {"unshare",
                                             "--mount",
                                             "/bin/sh",
                                             "-c",
                                             "mount -t tmpfs -o nr_inodes=1 none $TMPDIR && "
                                             "exec \"$@\"",
                                             "sh"};
    auto probe = mounts;
    probe.emplace_back("true");
    const TemporaryFolder folder;
    const auto full = folder / "full", missing = folder / "missing";
    std::filesystem::create_directory(full);
    const bool can_mount = run_program(probe, {{"TMPDIR", full}}).exit_code == 0;
    struct Row {
      std::string folder, problem;
    };
    for (const auto& row :
         {Row{missing, "No such file or directory"}, Row{full, "No space left on device"}}) {
      for (const std::string streams : {"0", "3"}) {
        if (row.folder == full && !can_mount) continue;
        CAPTURE(row.folder);
        CAPTURE(streams);
        auto command = row.folder == full ? mounts : std::vector<std::string>();
        command.insert(command.end(), {in_bin("ddprun"), "-r", streams, "/bin/true"});
        const auto result = run_program(command, {{"TMPDIR", row.folder}});
        INFO(result.output);
        CHECK(result.exit_code == 1);
        CHECK(contains(result.output, "ddprun: TMPDIR: folder " + row.folder + "/ddprun"));
        CHECK(contains(result.output, " cannot be created: " + row.problem + "; set TMPDIR to "));
        CHECK_FALSE(std::filesystem::exists(missing));
      }
    }
    if (!can_mount) skip("file systems cannot be mounted here");
  }

  TEST_CASE("surroundings: a run without started workers leaves no folder or empty file") {
    const TemporaryFolder folder;
    const auto mine = folder / "mine", program = folder / "program";
    std::filesystem::create_directory(mine);
    write_file(program, read_file(in_bin("ddprun")).substr(0, 100), true);  // a damaged ELF file
    for (const std::string log_dir : {"", "mine", "mine/new/logs", "other"}) {
      CAPTURE(log_dir);
      std::vector<std::string> command = {in_bin("ddprun"), "-r", "3", "--nproc_per_node=2"};
      if (!log_dir.empty()) command.push_back("--log_dir=" + folder / log_dir);
      command.insert(command.end(), {"--no_python", program});
      CHECK(run_program(command, {{"TMPDIR", folder.path()}}).exit_code == 1);
      CHECK(std::filesystem::is_empty(mine));
      CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 2);
    }
  }

  TEST_CASE("surroundings: a lack of descriptors for the guardian is reported with the limit") {
    int named = 0;
    for (int limit = 8; limit < 20; ++limit) {
      const auto result =
          run_program({"/bin/sh", "-c", "ulimit -n " + std::to_string(limit) + "; exec \"$@\"",
                       "sh", in_bin("ddprun"), "--no_python", "/bin/false"});
      if (!contains(result.output, "the guardian process: fork: Too many open files")) continue;
      ++named;
      CHECK(contains(result.output, "(ulimit -n is " + std::to_string(limit)));
      CHECK_FALSE(contains(result.output, "ulimit -u"));
    }
    CHECK(named > 0);
  }

  TEST_CASE("surroundings: --help and --dry_run fail if standard output is not writable") {
    for (const std::string option : {"--help", "--version", "--dry_run"}) {
      const auto result = run_program(
          {"/bin/sh", "-c", "exec \"$@\" >/dev/full", "sh", in_bin("ddprun"), option, "/bin/true"});
      CHECK(result.exit_code == 1);
      CHECK(contains(result.output, "standard output: "));
    }
  }

  TEST_CASE("surroundings: a successful run fails if worker output cannot be written") {
    for (const std::string stream : {"1>", "2>"}) {
      CAPTURE(stream);
      const auto result = run_program({"/bin/sh", "-c", "exec \"$@\" " + stream + "/dev/full", "sh",
                                       in_bin("ddprun"), "--no_python", "/bin/sh", "-c",
                                       "echo out; echo error >&2"});
      CHECK(result.exit_code == 1);
      if (stream == "2>") continue;
      CHECK(contains(result.output,
                     "console: No space left on device; the workers' output is no "
                     "longer shown"));
      CHECK(contains(result.output,
                     "ddprun: all workers have succeeded, but not all of their "
                     "output could be written: exit code 1\n"));
    }
  }

  TEST_CASE("surroundings: a worker's exit code takes precedence over unwritable output") {
    const auto result =
        run_program({"/bin/sh", "-c", "exec \"$@\" >/dev/full", "sh", in_bin("ddprun"),
                     "--exit_code=worker", "--no_python", "/bin/sh", "-c", "echo out; exit 7"});
    CHECK(result.exit_code == 7);
    CHECK_FALSE(contains(result.output, "all workers have succeeded"));
  }

  TEST_CASE("surroundings: a current folder that was removed is reported") {
    const TemporaryFolder folder;
    const auto gone = folder / "gone";
    const auto result =
        run_program({"/bin/sh", "-c",
                     "mkdir " + gone + " && cd " + gone + " && rmdir " + gone + " && exec \"$@\"",
                     "sh", in_bin("ddprun"), "/bin/true"});
    CHECK(result.exit_code == 1);
    CHECK(contains(result.output, "has it been removed?"));
  }

  TEST_CASE("surroundings: an invalid LOGLEVEL causes a warning") {
    const auto result = run_program({in_bin("ddprun"), "/bin/true"}, {{"LOGLEVEL", "LOUD"}});
    CHECK(result.exit_code == 0);
    CHECK(contains(result.output,
                   "LOGLEVEL=LOUD is ignored: must be DEBUG, INFO, WARNING, ERROR or CRITICAL"));
  }

  TEST_CASE("surroundings: ddprun reaps orphans and ends at SIGTERM even with process id 1") {
    const std::vector<std::string> container = {"unshare", "--pid", "--fork", "--kill-child",
                                                "--mount-proc"};
    auto probe = container;
    probe.emplace_back("true");
    if (run_program(probe).exit_code != 0) return skip("PID namespaces are not permitted here");
    auto command = container;
    command.insert(command.end(),
                   {in_bin("ddprun"), "--no_python", "/bin/sh", "-c",
                    "orphan=$(setsid sleep 0.05 >/dev/null & echo $!)\n"
                    "while [ -e /proc/$orphan ]; do sleep 0.01; done; echo reaped; sleep 1000"});
    Program program(command);
    REQUIRE(program.read_until_contains("reaped"));
    for (const pid_t pid : program.descendants()) {
      if (read_file("/proc/" + std::to_string(pid) + "/comm") == "ddprun\n") ::kill(pid, SIGTERM);
    }
    CHECK(program.wait() == 128 + SIGTERM);
  }
}

}  // namespace surroundings_test
