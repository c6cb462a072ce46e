// Binding of workers to CPUs by the real launcher.
#include "tests/support/program.hpp"

#include <doctest/doctest.h>
#include <sched.h>

#include <vector>

namespace affinity_test {

using ddprun::test::in_bin;
using ddprun::test::run_program;

namespace {

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::vector<int> allowed_cpus() {
  cpu_set_t allowed;
  REQUIRE(::sched_getaffinity(0, sizeof(allowed), &allowed) == 0);
  std::vector<int> cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &allowed)) cpus.push_back(cpu);
  }
  return cpus;
}

}  // namespace

TEST_SUITE("affinity") {
  TEST_CASE("affinity: each worker runs on the CPUs of its list") {
    const auto cpus = allowed_cpus();
    const auto first = std::to_string(cpus.front()), last = std::to_string(cpus.back());
    const auto result =
        run_program({in_bin("ddprun"), "--affinity=" + last + ";" + first, "--nproc_per_node=2",
                     "--no_python", "/bin/grep", "Cpus_allowed_list", "/proc/self/status"});
    CHECK(result.exit_code == 0);
    CHECK(contains(result.output, "[default0]:Cpus_allowed_list:\t" + last + "\n"));
    CHECK(contains(result.output, "[default1]:Cpus_allowed_list:\t" + first + "\n"));
    CHECK(contains(result.output, "CPUs: rank"));
  }

  TEST_CASE("affinity: only CPUs available to ddprun are shared among workers and threads") {
    const auto first = std::to_string(allowed_cpus().front());
    const auto result =
        run_program({"/usr/bin/taskset", "-c", first, in_bin("ddprun"), "--affinity=cores",
                     "--omp_num_threads=auto", "--nproc_per_node=2", "--no_python", "/bin/sh", "-c",
                     "echo threads $OMP_NUM_THREADS; grep Cpus_allowed_list /proc/self/status"});
    CHECK(result.exit_code == 0);
    CHECK(contains(result.output, "CPUs: ranks 0-1: " + first + "\n"));
    CHECK(contains(result.output, "some share a core"));
    CHECK(contains(result.output, "[default1]:threads 1\n"));
    CHECK(contains(result.output, "[default1]:Cpus_allowed_list:\t" + first + "\n"));
  }

  TEST_CASE("affinity: a dry run shows the CPUs of each worker and rejects unavailable ones") {
    const auto first = std::to_string(allowed_cpus().front());
    const auto shown =
        run_program({in_bin("ddprun"), "--dry_run", "--affinity=" + first, "/bin/true"});
    CHECK(contains(shown.output, "  CPUs: " + first));
    const auto refused = run_program({in_bin("ddprun"), "--affinity=8191", "/bin/true"});
    CHECK(refused.exit_code == 2);
    CHECK(contains(refused.output,
                   "CPU 8191 of local rank 0 is not among the CPUs that ddprun may use"));
  }
}

}  // namespace affinity_test
