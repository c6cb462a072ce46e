// Nothing of a run survives it.
#include "launcher/plan/cgroup_folder.hpp"
#include "launcher/process/cgroup.hpp"
#include "launcher/process/proc_scan.hpp"
#include "tests/support/worker_bench.hpp"

#include <doctest/doctest.h>

#include <csignal>
#include <fstream>
#include <iterator>
#include <sys/wait.h>
#include <unistd.h>

using namespace ddprun;
using namespace ddprun::test;
using namespace std::chrono_literals;
namespace fs = std::filesystem;

namespace {

pid_t pid_in(const fs::path& file) {
  return std::stoi(await_line(file));
}

std::string in_own_session(const fs::path& pid_file, const std::string& how = "") {
  return "setsid " + how + " sh -c 'echo $$ >" + pid_file.string() +
         "; exec sleep 1000' </dev/null >/dev/null 2>&1 & ";
}

/// Both modes, where both can be had.
std::vector<ContainmentMode> modes() {
  std::string reason;
  std::vector<ContainmentMode> modes{ContainmentMode::marker};
  if (const auto cgroup = Cgroup::create("ddprun-test-" + std::to_string(::getpid()), reason)) {
    cgroup->remove();
    modes.push_back(ContainmentMode::cgroup);
  } else {
    MESSAGE("without cgroups: ", reason);
  }
  return modes;
}

std::string read(const fs::path& file) {
  std::ifstream stream(file);
  return {std::istreambuf_iterator<char>(stream), {}};
}

fs::path cgroup_of_run(const std::string& word) {
  const auto own = own_cgroup(read("/proc/self/cgroup"), read("/proc/self/mounts"));
  return own ? own->folder / ("ddprun-" + word) : fs::path("/nowhere");
}

/// An agent of its own process that starts one worker running `script`, writes what it knows to
/// `notes` (marker word, then its children) and waits to be killed.
[[noreturn]] void be_agent(ContainmentMode mode, const std::string& script, const fs::path& notes) {
  // It will not get to remove its files.
  ::setenv("TMPDIR", notes.parent_path().c_str(), 1);
  WorkerBench bench(1, mode);
  bench.start({shell_worker(0, script)});
  {
    std::ofstream file(notes.string() + ".new");
    file << bench.containment().marker().second;
    for (const pid_t child : children()) file << ' ' << child;
    file << '\n';
  }
  fs::rename(notes.string() + ".new", notes);
  while (true) ::pause();
}

}  // namespace

TEST_SUITE("containment") {
  TEST_CASE("descendants in sessions of their own are swept when the workers have ended") {
    for (const auto mode : modes()) {
      CAPTURE(static_cast<int>(mode));
      WorkerBench bench(1, mode);
      const auto one = bench.folder() / "one", two = bench.folder() / "two";
      // The second clears its environment, and with it the marker.
      bench.start({shell_worker(0, in_own_session(one) + in_own_session(two, "env -i") +
                                       "while [ ! -s " + one.string() + " -o ! -s " + two.string() +
                                       " ]; do sleep 0.01; done")});
      const pid_t first = pid_in(one), second = pid_in(two);
      bench.run_to_end();
      CHECK(is_alive(first));
      CHECK(is_alive(second));
      const auto swept = bench.sweep();
      CHECK(std::count(swept.begin(), swept.end(), first) == 1);
      CHECK(std::count(swept.begin(), swept.end(), second) == 1);
      CHECK_FALSE(is_alive(first));
      CHECK_FALSE(is_alive(second));
      CHECK(bench.sweep().empty());
    }
  }

  TEST_CASE("a helper that ignores SIGTERM gets to tidy up after a killed worker") {
    for (const auto mode : modes()) {
      CAPTURE(static_cast<int>(mode));
      WorkerBench bench(1, mode);
      const auto pipe = (bench.folder() / "pipe").string(),
                 tidy = (bench.folder() / "tidy").string();
      // As the resource tracker of Python's multiprocessing: the end of the pipe is the worker's.
      bench.start({shell_worker(
          0, "mkfifo " + pipe + "; (trap '' TERM; cat " + pipe + "; sleep 0.2; echo done >" + tidy +
                 ") </dev/null >/dev/null 2>&1 & exec 3>" + pipe + "; kill -9 $$")});
      bench.run_to_end();
      CHECK(bench.sweep().empty());
      CHECK(read(tidy) == "done\n");
    }
  }

  TEST_CASE("a descendant that ignores SIGTERM and does not end is killed") {
    for (const auto mode : modes()) {
      CAPTURE(static_cast<int>(mode));
      WorkerBench bench(1, mode);
      const auto file = bench.folder() / "pid";
      bench.start({shell_worker(0, "trap '' TERM; " + in_own_session(file) + "while [ ! -s " +
                                       file.string() + " ]; do sleep 0.01; done")});
      bench.run_to_end();
      CHECK(bench.sweep() == std::vector<pid_t>{pid_in(file)});
      CHECK_FALSE(is_alive(pid_in(file)));
    }
  }

  TEST_CASE("nothing is left when the agent is killed") {
    for (const auto mode : modes()) {
      CAPTURE(static_cast<int>(mode));
      const TemporaryFolder folder;
      const auto notes = folder.path() / "notes", grandchild = folder.path() / "grandchild";
      const pid_t agent = ::fork();
      if (agent == 0) be_agent(mode, in_own_session(grandchild) + "sleep 1000", notes);
      std::istringstream words(await_line(notes));
      std::string marker_word;
      words >> marker_word;
      std::vector<pid_t> family(std::istream_iterator<pid_t>(words), {});
      CHECK(family.size() == 2);  // the guardian and the worker
      family.push_back(pid_in(grandchild));
      for (const pid_t pid : family) CHECK(is_alive(pid));
      ::kill(agent, SIGKILL);
      CHECK(::waitpid(agent, nullptr, 0) == agent);
      const auto deadline = Deadline::after(20s);
      for (const pid_t pid : family) CHECK(await_end(pid, deadline));
      CHECK(processes_with("DDPRUN_MARKER", marker_word).empty());
      CHECK_FALSE(fs::exists(cgroup_of_run(marker_word)));
    }
  }

  TEST_CASE("the guardian holds neither the agent's streams nor its folder nor its session") {
    const Containment containment;
    const auto family = children();
    REQUIRE(family.size() == 1);
    const auto of_guardian = fs::path("/proc") / std::to_string(family[0]);
    const auto deadline = Deadline::after(20s);
    while (read(of_guardian / "comm") != "guardian\n" && !deadline.passed()) {
    }
    while (fs::read_symlink(of_guardian / "cwd") != "/" && !deadline.passed()) {
    }
    int descriptors = 0;
    for (const auto& entry : fs::directory_iterator(of_guardian / "fd")) {
      CHECK(fs::read_symlink(entry).string().rfind("pipe:", 0) == 0);
      ++descriptors;
    }
    CHECK(descriptors == 1);
    CHECK(::getsid(family[0]) == family[0]);
    for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGQUIT}) ::kill(family[0], signal);
    CHECK(is_alive(family[0]));
  }

  TEST_CASE("the guardian goes by a name of its own") {
    const Containment containment;
    const auto of_guardian = fs::path("/proc") / std::to_string(children().at(0));
    const std::string name = "guardian of " + std::to_string(::getpid());
    const auto deadline = Deadline::after(20s);
    while (read(of_guardian / "cmdline").c_str() != name && !deadline.passed()) {
    }
    const auto line = read(of_guardian / "cmdline");
    CHECK(line.c_str() == name);
    CHECK(line.find_first_not_of('\0', name.size()) == std::string::npos);
    CHECK(read("/proc/self/cmdline").find("guardian of") == std::string::npos);
  }

  TEST_CASE("a stopped guardian does not outlive the run") {
    pid_t guardian = -1;
    {
      const Containment containment;
      guardian = children().at(0);
      ::kill(guardian, SIGSTOP);
      const auto deadline = Deadline::after(20s);
      while (process_state(guardian).letter != 'T' && !deadline.passed()) {
      }
      CHECK(process_state(guardian).letter == 'T');
    }
    CHECK(process_state(guardian).letter == '\0');
  }

  TEST_CASE("orphans that the end of the group killed are reaped, however late they end") {
    for (int round = 0; round < 30; ++round) {
      WorkerBench bench(1, ContainmentMode::marker);
      const auto started = bench.folder() / "started";
      bench.start({shell_worker(0, "for i in 1 2 3 4 5 6 7 8; do sleep 1000 & done; echo >" +
                                       started.string() + "; wait")});
      await_line(started);
    }
    CHECK(::waitpid(-1, nullptr, WNOHANG) == -1);
  }

  TEST_CASE("a run inside another run's worker is found by both markers") {
    ::setenv("DDPRUN_MARKER", "outer", 1);
    WorkerBench bench(1, ContainmentMode::marker);
    const auto pid = bench.start({shell_worker(0, "sleep 1000")})[0].pid;
    ::unsetenv("DDPRUN_MARKER");
    CHECK(has_in_environment(pid, "DDPRUN_MARKER", "outer"));
    CHECK(has_in_environment(pid, "DDPRUN_MARKER", bench.containment().marker().second));
  }

  TEST_CASE("the children of a worker that was killed do not hold up the news of it") {
    WorkerBench bench(1, ContainmentMode::marker);
    const auto child = bench.folder() / "child";
    bench.start({shell_worker(0, "sleep 1000 & echo $! >" + child.string() + "; kill -9 $$")});
    bench.run_to_first_exit();
    CHECK(bench.history().exit_of(0).signal == SIGKILL);
    // Before any sweep.
    CHECK(await_end(pid_in(child), Deadline::after(20s)));
  }

  TEST_CASE("orphans that end while the workers go on do not stay as zombies") {
    WorkerBench bench(1, ContainmentMode::marker);
    const auto orphan = bench.folder() / "orphan";
    bench.start(
        {shell_worker(0, "(sh -c 'echo $$ >" + orphan.string() + "; sleep 0.1' &) ; sleep 1000")});
    const pid_t pid = pid_in(orphan);
    bench.run_until([&] { return process_state(pid).letter == '\0'; });
    CHECK(bench.history().exited.empty());
  }

  TEST_CASE("a cgroup that its members have divided is removed as a whole") {
    std::string reason;
    const auto cgroup = Cgroup::create("ddprun-test-" + std::to_string(::getpid()), reason);
    if (!cgroup) {
      MESSAGE("without cgroups: ", reason);
      return;
    }
    const auto folder = cgroup_of_run("test-" + std::to_string(::getpid()));
    fs::create_directories(folder / "a" / "b");
    CHECK_FALSE(cgroup->is_populated());
    cgroup->remove();
    CHECK_FALSE(fs::exists(folder));
  }
}
