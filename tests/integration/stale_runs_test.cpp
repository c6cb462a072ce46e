// What is left of a run whose agent and guardian were both killed, at the start of the next one.
#include "tests/support/agent_process.hpp"

#include <doctest/doctest.h>

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
  TEST_CASE("what two killings left is ended by the next start") {
    if (!has_cgroups()) return;
    const TemporaryFolder folder;
    const auto file = folder.path() / "grandchild";
    AgentProcess agent(ContainmentMode::cgroup, in_own_session(file) + "sleep 1000");
    const pid_t grandchild = pid_in(file);
    ::kill(agent.guardian, SIGKILL);
    CHECK(await_end(agent.guardian, Deadline::after(20s)));
    agent.kill();
    CHECK(await_end(agent.worker, Deadline::after(20s)));  // by the parent-death signal
    // Another test may start a run and be faster, so nothing is said of how the next one begins.
    const Containment next({.mode = ContainmentMode::cgroup});
    CHECK(await_end(grandchild, Deadline::after(20s)));
    // A start does not wait for long, and this machine may be slow.
    Cgroup::end_stale_runs(Deadline::after(20s));
    CHECK_FALSE(fs::exists(cgroup_of_run(agent.word)));
  }

  TEST_CASE("a run is let alone for as long as its agent or its guardian lives") {
    if (!has_cgroups()) return;
    AgentProcess agent(ContainmentMode::cgroup, "sleep 1000");
    const auto deadline = Deadline::after(20s);
    // It may not have got so far as to have the cgroup in use itself.
    while (process_state(agent.guardian).letter != 'S' && !deadline.passed()) {
    }
    const auto comm = "/proc/" + std::to_string(agent.guardian) + "/comm";
    while (read_text(comm) != "guardian\n" && !deadline.passed()) {
    }
    const auto is_met = [&] {
      const auto met = Cgroup::end_stale_runs(Deadline::after(1s));
      return std::find(met.begin(), met.end(), agent.worker) != met.end();
    };
    CHECK_FALSE(is_met());
    CHECK(is_alive(agent.worker));
    ::kill(agent.guardian, SIGSTOP);
    agent.kill();
    CHECK_FALSE(is_met());
    CHECK(fs::exists(cgroup_of_run(agent.word)));
    ::kill(agent.guardian, SIGCONT);
    CHECK(await_end(agent.guardian, deadline));
    CHECK_FALSE(fs::exists(cgroup_of_run(agent.word)));
  }

  TEST_CASE("cgroups of other names are let alone") {
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

  TEST_CASE("a cgroup that somebody is just removing cannot be taken into use") {
    std::string reason;
    const auto cgroup = Cgroup::create("test-of-ddprun-" + std::to_string(::getpid()), reason);
    if (!cgroup) return;
    const auto folder = cgroup->folder();
    CHECK(Cgroup::open(folder).has_value());
    cgroup->remove();
    CHECK_FALSE(Cgroup::open(folder).has_value());
  }
}

}  // namespace stale_runs_test
