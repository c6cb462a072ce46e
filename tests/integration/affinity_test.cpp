// Bound workers and limited agents on this machine.
#include "launcher/plan/cgroup_folder.hpp"
#include "launcher/plan/topology.hpp"
#include "tests/support/worker_bench.hpp"

#include <doctest/doctest.h>

#include <cerrno>
#include <fstream>
#include <linux/mempolicy.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace affinity_test {

using namespace ddprun;
using namespace ddprun::test;
namespace fs = std::filesystem;

namespace {

bool write(const fs::path& file, const std::string& text) {
  std::ofstream stream(file);
  stream << text << std::flush;
  return stream.good();
}

/// A child cgroup of that of this process, limited to one and a half CPUs; nothing if it cannot be
/// created.
fs::path make_limited_cgroup() {
  for (const auto& own : own_cgroups("/", "cpu")) {
    const auto folder = own.folder / ("quota-of-" + std::to_string(::getpid()));
    if (::mkdir(folder.c_str(), 0755) != 0) continue;
    if (fs::exists(folder / "cpu.max") && write(folder / "cpu.max", "150000 100000")) return folder;
    if (fs::exists(folder / "cpu.cfs_quota_us") && write(folder / "cpu.cfs_period_us", "100000") &&
        write(folder / "cpu.cfs_quota_us", "150000")) {
      return folder;
    }
    ::rmdir(folder.c_str());
  }
  return {};
}

}  // namespace

TEST_SUITE("affinity") {
  TEST_CASE("affinity: a worker prefers the memory of its assigned node") {
    if (::syscall(SYS_set_mempolicy, MPOL_DEFAULT, nullptr, 0) != 0 ||
        !fs::exists("/proc/self/numa_maps")) {
      MESSAGE("without memory policies");
      return;
    }
    WorkerBench bench(2);
    auto bound = shell_worker(0, "grep -o -m1 prefer.* /proc/self/numa_maps | cut -d' ' -f1");
    bound.memory_node = 0;
    bench.start({bound, shell_worker(1, "grep -c prefer /proc/self/numa_maps")});
    bench.run_to_end();
    CHECK(bench.console().find("[w0]:prefer:0\n") != std::string::npos);
    CHECK(bench.console().find("[w1]:0\n") != std::string::npos);
  }

  TEST_CASE("affinity: a memory node that does not exist is ignored") {
    WorkerBench bench;
    auto worker = shell_worker(0, "echo up");
    worker.memory_node = 1000;
    bench.start({worker});
    bench.run_to_end();
    CHECK(bench.console() == "[w0]:up\n");
  }

  TEST_CASE("affinity: the CPU quota of this process's cgroup is found") {
    const auto cgroup = make_limited_cgroup();
    if (cgroup.empty()) {
      MESSAGE("without cgroups that limit CPUs");
      return;
    }
    const pid_t child = ::fork();
    if (child == 0) {
      const bool is_inside = write(cgroup / "cgroup.procs", "0");
      ::_exit(is_inside && read_cpu_quota("/") == 1.5 ? 0 : 1);
    }
    int status = -1;
    CHECK(::waitpid(child, &status, 0) == child);
    CHECK(status == 0);
    CHECK(::rmdir(cgroup.c_str()) == 0);
  }
}

}  // namespace affinity_test
