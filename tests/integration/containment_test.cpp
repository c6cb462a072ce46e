// Processes, cgroups and folders of a run do not survive it.
#include "launcher/process/guardian.hpp"
#include "tests/support/agent_process.hpp"
#include <ddprun/error.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <sys/wait.h>
#include <unistd.h>

namespace containment_test {

using namespace ddprun;
using namespace ddprun::test;
using namespace std::chrono_literals;
namespace fs = std::filesystem;

namespace {

/// Runs in both modes if both are available.
std::vector<ContainmentMode> modes() {
  std::string reason;
  std::vector<ContainmentMode> modes{ContainmentMode::marker};
  if (const auto cgroup = Cgroup::create("test-of-ddprun-" + std::to_string(::getpid()), reason)) {
    cgroup->remove();
    modes.push_back(ContainmentMode::cgroup);
  } else {
    MESSAGE("without cgroups: ", reason);
  }
  return modes;
}

}  // namespace

TEST_SUITE("containment") {
  TEST_CASE("containment: descendants in other sessions are killed after the workers end") {
    for (const auto mode : modes()) {
      CAPTURE(static_cast<int>(mode));
      WorkerBench bench(1, mode);
      const auto one = bench.folder() / "one", two = bench.folder() / "two";
      // The second one clears its environment, including the marker.
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

  TEST_CASE("containment: a helper that ignores SIGTERM can clean up after a killed worker") {
    for (const auto mode : modes()) {
      CAPTURE(static_cast<int>(mode));
      WorkerBench bench(1, mode);
      const auto pipe = (bench.folder() / "pipe").string(),
                 tidy = (bench.folder() / "tidy").string();
      // Like the resource tracker of Python's multiprocessing: it ends with its pipe to the worker.
      bench.start({shell_worker(
          0, "mkfifo " + pipe + "; (trap '' TERM; cat " + pipe + "; sleep 0.2; echo done >" + tidy +
                 ") </dev/null >/dev/null 2>&1 & exec 3>" + pipe + "; kill -9 $$")});
      bench.run_to_end();
      CHECK(bench.sweep().empty());
      CHECK(read_text(tidy) == "done\n");
    }
  }

  TEST_CASE("containment: a descendant that ends by itself after its worker is not stopped") {
    for (const auto mode : modes()) {
      CAPTURE(static_cast<int>(mode));
      WorkerBench bench(1, mode, {.when = StacksWhen::never}, {.own_end = 60s});
      const auto pipe = (bench.folder() / "pipe").string();
      // Like the fork server of Python's multiprocessing: it ends with its pipe to the worker.
      bench.start(
          {shell_worker(0, "mkfifo " + pipe + "; (cat " + pipe +
                               "; sleep 0.1) </dev/null >/dev/null 2>&1 & exec 3>" + pipe)});
      bench.run_to_end();
      CHECK(bench.sweep().empty());
    }
  }

  TEST_CASE("containment: a descendant that ignores SIGTERM is killed") {
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

  TEST_CASE("guardian: a guardian is not started if its cleanup data does not fit into a pipe") {
    Guardian guardian("/bin/true", {.word = "word",
                                    .cgroup = std::string(6000, 'c'),
                                    .temporary_folder = std::string(6300, 't')});
    CHECK_THROWS_WITH(guardian.start(),
                      "guardian: the list of what it has to clean up is too long");
    CHECK(guardian.pid() == -1);
  }

  TEST_CASE("containment: a run whose guardian cannot be started leaves no cgroup") {
    // Runs of other tests have theirs elsewhere.
    std::string reason;
    const auto own = Cgroup::create("test-of-ddprun-" + std::to_string(::getpid()), reason);
    if (!own) return;
    const auto move_to = [](const fs::path& cgroup) {
      std::ofstream(cgroup / "cgroup.procs") << 0;
    };
    move_to(own->folder());
    std::string problem;
    try {
      // Too long for the guardian's pipe.
      const Containment containment(
          {.mode = ContainmentMode::cgroup, .temporary_folder = std::string(20'000, 't')});
    } catch (const Error& error) {
      problem = error.what();
    }
    int left = 0;
    for (const auto& entry : fs::directory_iterator(own->folder())) left += entry.is_directory();
    move_to(own->folder().parent_path());
    own->remove();
    CHECK(problem == "guardian: the list of what it has to clean up is too long");
    CHECK(left == 0);
  }

  TEST_CASE("containment: a killed agent leaves no process or cgroup behind") {
    for (const auto mode : modes()) {
      CAPTURE(static_cast<int>(mode));
      const TemporaryFolder folder;
      const auto grandchild = folder.path() / "grandchild";
      AgentProcess agent(mode, in_own_session(grandchild) + "sleep 1000");
      const std::vector<pid_t> family{agent.guardian, agent.worker, pid_in(grandchild)};
      for (const pid_t pid : family) CHECK(is_alive(pid));
      agent.kill();
      const auto deadline = Deadline::after(20s);
      for (const pid_t pid : family) CHECK(await_end(pid, deadline));
      CHECK(RunMembers(agent.word, std::nullopt).members().empty());
      CHECK_FALSE(fs::exists(cgroup_of_run(agent.word)));
    }
  }

  TEST_CASE("guardian: the process holds no stream or folder or session of the agent") {
    const Containment containment;
    const auto family = children();
    REQUIRE(family.size() == 1);
    const auto of_guardian = fs::path("/proc") / std::to_string(family[0]);
    const auto deadline = Deadline::after(20s);
    while (read_text(of_guardian / "comm") != "guardian\n" && !deadline.passed()) {
    }
    while (fs::read_symlink(of_guardian / "cwd") != "/" && !deadline.passed()) {
    }
    int descriptors = 0;
    for (const auto& entry : fs::directory_iterator(of_guardian / "fd")) {
      const auto target = fs::read_symlink(entry).string();
      const bool is_cgroup = target == cgroup_of_run(containment.marker().second);
      CHECK((is_cgroup || target.rfind("pipe:", 0) == 0));
      descriptors += !is_cgroup;
    }
    CHECK(descriptors == 1);
    CHECK(::getsid(family[0]) == family[0]);
    for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGQUIT}) ::kill(family[0], signal);
    CHECK(is_alive(family[0]));
  }

  TEST_CASE("guardian: the process has a distinct name") {
    const Containment containment;
    const auto of_guardian = fs::path("/proc") / std::to_string(children().at(0));
    const std::string name = "guardian of " + std::to_string(::getpid());
    const auto deadline = Deadline::after(20s);
    while (read_text(of_guardian / "cmdline").c_str() != name && !deadline.passed()) {
    }
    const auto line = read_text(of_guardian / "cmdline");
    CHECK(line.c_str() == name);
    CHECK(line.find_first_not_of('\0', name.size()) == std::string::npos);
    CHECK(read_text("/proc/self/cmdline").find("guardian of") == std::string::npos);
  }

  TEST_CASE("guardian: a guardian stopped by SIGSTOP does not outlive the run") {
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

  TEST_CASE("containment: killed orphans are reaped even if they end late") {
    for (int round = 0; round < 30; ++round) {
      WorkerBench bench(1, ContainmentMode::marker);
      const auto started = bench.folder() / "started";
      bench.start({shell_worker(0, "for i in 1 2 3 4 5 6 7 8; do sleep 1000 & done; echo >" +
                                       started.string() + "; wait")});
      await_line(started);
    }
    CHECK(::waitpid(-1, nullptr, WNOHANG) == -1);
  }

  TEST_CASE("containment: a worker of a nested run is found by the markers of both runs") {
    ::setenv("DDPRUN_MARKER", "outer", 1);
    WorkerBench bench(1, ContainmentMode::marker);
    const auto pid = bench.start({shell_worker(0, "sleep 1000")})[0].pid;
    ::unsetenv("DDPRUN_MARKER");
    for (const auto& word : {std::string("outer"), bench.containment().marker().second}) {
      const auto found = RunMembers(word, std::nullopt).members();
      CHECK(std::find(found.begin(), found.end(), pid) != found.end());
    }
  }

  TEST_CASE("containment: a process that calls exec repeatedly is always found") {
    WorkerBench bench(1, ContainmentMode::marker);
    const auto script = bench.folder() / "again";
    std::ofstream(script) << "exec sh " + script.string() + "\n";
    const auto pid = bench.start({shell_worker(0, "exec sh " + script.string())})[0].pid;
    // Searches by the marker alone, like the guardian.
    const RunMembers members(bench.containment().marker().second, std::nullopt);
    int found = 0;
    for (int i = 0; i < 500; ++i) found += members.members() == std::vector<pid_t>{pid} ? 1 : 0;
    CHECK(found == 500);
  }

  TEST_CASE("containment: a killed worker is reported before its children are killed") {
    WorkerBench bench(1, ContainmentMode::marker);
    const auto child = bench.folder() / "child";
    bench.start({shell_worker(0, "sleep 1000 & echo $! >" + child.string() + "; kill -9 $$")});
    bench.run_to_first_exit();
    CHECK(bench.history().exit_of(0).signal == SIGKILL);
    // Before descendants are killed.
    CHECK(await_end(pid_in(child), Deadline::after(20s)));
  }

  TEST_CASE("containment: orphans that end while workers run are reaped") {
    WorkerBench bench(1, ContainmentMode::marker);
    const auto orphan = bench.folder() / "orphan";
    bench.start(
        {shell_worker(0, "(sh -c 'echo $$ >" + orphan.string() + "; sleep 0.1' &) ; sleep 1000")});
    const pid_t pid = pid_in(orphan);
    bench.run_until([&] { return process_state(pid).letter == '\0'; });
    CHECK(bench.history().exited.empty());
  }

  TEST_CASE("containment: a cgroup with nested cgroups of its members is removed") {
    std::string reason;
    const auto cgroup = Cgroup::create("test-of-ddprun-" + std::to_string(::getpid()), reason);
    if (!cgroup) {
      MESSAGE("without cgroups: ", reason);
      return;
    }
    const auto folder = cgroup->folder();
    fs::create_directories(folder / "a" / "b");
    CHECK_FALSE(cgroup->is_populated());
    cgroup->remove();
    CHECK_FALSE(fs::exists(folder));
  }
}

}  // namespace containment_test
