// Leftovers of a run whose agent and guardian were both killed, at the start of the next one.
#include "launcher/agent/run_folder.hpp"
#include "launcher/process/folder_lock.hpp"
#include "tests/support/agent_process.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>

namespace stale_runs_test {

using namespace ddprun;
using namespace ddprun::test;
using namespace std::chrono_literals;
namespace fs = std::filesystem;

namespace {

bool has_cgroups() {
  std::string reason;
  const auto cgroup = Cgroup::create("test-of-ddprun-" + std::to_string(::getpid()), reason);
  if (cgroup) {
    cgroup->remove();
  } else {
    MESSAGE("without cgroups: ", reason);
  }
  return cgroup.has_value();
}

}  // namespace

TEST_SUITE("stale runs") {
  TEST_CASE("stale runs: a start kills processes left by a killed agent and guardian") {
    if (!has_cgroups()) return;
    const TemporaryFolder folder;
    const auto file = folder.path() / "grandchild";
    AgentProcess agent(ContainmentMode::cgroup, in_own_session(file) + "sleep 1000");
    const pid_t grandchild = pid_in(file);
    ::kill(agent.guardian, SIGKILL);
    CHECK(await_end(agent.guardian, Deadline::after(20s)));
    agent.kill();
    CHECK(await_end(agent.worker, Deadline::after(20s)));  // by the parent-death signal
    // Another test may start a run earlier, so the output of the next one is not checked.
    const Containment next({.mode = ContainmentMode::cgroup});
    CHECK(await_end(grandchild, Deadline::after(20s)));
    // A start does not wait long, and this machine may be slow. While the run of another test ends
    // the same cgroup, it is skipped.
    const auto deadline = Deadline::after(20s);
    while (fs::exists(cgroup_of_run(agent.word)) && !deadline.passed())
      Cgroup::end_stale_runs(deadline);
    CHECK_FALSE(fs::exists(cgroup_of_run(agent.word)));
  }

  TEST_CASE("stale runs: a run whose guardian is stopped is ended unless its agent is alive") {
    if (!has_cgroups()) return;
    AgentProcess agent(ContainmentMode::cgroup, "sleep 1000");
    const auto deadline = Deadline::after(20s);
    const auto end_stale_runs = [&] {
      const auto stale = Cgroup::end_stale_runs(deadline);
      return std::count_if(stale.begin(), stale.end(), [&](const Cgroup::Stale& process) {
        return process.pid == agent.worker && !process.is_left;
      });
    };
    CHECK(end_stale_runs() == 0);
    CHECK(is_alive(agent.worker));
    // Until it has executed its program it holds the agent's lock of the cgroup, like any child.
    const auto name = [&] { return thread_name(agent.guardian, agent.guardian); };
    while (name() != "guardian" && !deadline.passed()) {
    }
    REQUIRE(name() == "guardian");
    ::kill(agent.guardian, SIGSTOP);
    while (process_state(agent.guardian).letter != 'T' && !deadline.passed()) {
    }
    agent.kill();
    // Runs of other tests may be faster.
    end_stale_runs();
    CHECK(await_end(agent.worker, deadline));
    while (fs::exists(cgroup_of_run(agent.word)) && !deadline.passed()) end_stale_runs();
    CHECK_FALSE(fs::exists(cgroup_of_run(agent.word)));
    ::kill(agent.guardian, SIGCONT);
    CHECK(await_end(agent.guardian, deadline));
  }

  TEST_CASE("stale runs: cgroups with other names are kept") {
    std::string reason;
    const auto cgroup = Cgroup::create("test-of-ddprun-" + std::to_string(::getpid()), reason);
    if (!cgroup) return;
    const auto folder = cgroup->folder();
    const auto alike = folder.parent_path() / (kRunCgroupPrefix + std::string("not-a-marker"));
    fs::create_directory(alike);
    Cgroup::end_stale_runs(Deadline::after(1s));
    CHECK(fs::exists(folder));
    CHECK(fs::exists(alike));
    ::rmdir(alike.c_str());
    cgroup->remove();
  }

  TEST_CASE("stale runs: a start removes only the temporary folders of ended runs") {
    const TemporaryFolder parent;
    LaunchPlan plan;
    plan.temporary_directory = parent.path();
    {
      const RunFolder live(plan);
      const auto name = live.path().filename().string();
      const auto word = name.size() - kWordLetters;
      const auto stale = parent.path() / (name.substr(0, word) + random_word());
      fs::create_directories(stale / "attempt_0" / "0");
      std::vector<fs::path> others = {live.path(), parent.path() / "ddprun-folder"};
      others.push_back(parent.path() / (name.substr(0, word) + "backup"));
      others.push_back(parent.path() / ("ddprun-00000000-" + random_word()));  // another boot
      for (const auto& other : others) fs::create_directory(other);
      fs::create_directory_symlink(others[1],
                                   parent.path() / (name.substr(0, word) + random_word()));
      plan.log_dir = parent.path() / "logs";
      const RunFolder next(plan);
      CHECK_FALSE(fs::exists(stale));
      for (const auto& other : others) CHECK(fs::exists(other));
    }
  }

  TEST_CASE("stale runs: a folder is in use while any process holds the lock") {
    const TemporaryFolder parent;
    const auto folder = parent.path() / "folder";
    fs::create_directory(folder);
    {
      const auto one = lock_folder(folder), two = lock_folder(folder);
      CHECK(one.get() >= 0);
      CHECK(two.get() >= 0);
      CHECK(lock_unused_folder(folder).get() < 0);
    }
    const auto unused = lock_unused_folder(folder);
    CHECK(unused.get() >= 0);
    CHECK(lock_folder(folder).get() < 0);
    CHECK(errno == EWOULDBLOCK);
    fs::remove(folder);
    CHECK(lock_folder(folder).get() < 0);
    CHECK(errno == ENOENT);
    fs::create_directory_symlink(parent.path(), folder);
    CHECK(lock_unused_folder(folder).get() < 0);
  }
}

}  // namespace stale_runs_test
