#include "launcher/plan/numa.hpp"

#include "launcher/plan/make_plan.hpp"
#include "tests/support/hosts.hpp"

#include <doctest/doctest.h>

using namespace ddprun;
using namespace ddprun::test;

namespace {

/// Nodes, sockets and caches of `cores_per_cache` cores; each core has two CPUs, numbered as Linux
/// does: the second CPUs of all cores come after the first ones.
NumaTopology machine(int nodes, int nodes_per_socket, int caches_per_node, int cores_per_cache) {
  NumaTopology topology;
  const int cores = nodes * caches_per_node * cores_per_cache;
  for (int cpu = 0; cpu < 2 * cores; ++cpu) {
    const int core = cpu % cores;
    const int cache = core / cores_per_cache;
    const int node = cache / caches_per_node;
    topology.cpus.push_back({.cpu = cpu,
                             .node = node,
                             .socket = node / nodes_per_socket,
                             .core = core,
                             .last_cache = cache * cores_per_cache});
  }
  return topology;
}

/// The bindings as lists with " | " between the workers, or "? " and the problem.
std::string bound(const NumaTopology& topology, NumaBinding binding, int workers) {
  const auto result = bind_workers(topology, binding, workers);
  if (const auto* problem = std::get_if<std::string>(&result)) return "? " + *problem;
  std::string text;
  for (const auto& cpus : std::get<std::vector<std::vector<int>>>(result)) {
    text += (text.empty() ? "" : " | ") + format_cpu_list(cpus);
  }
  return text;
}

}  // namespace

TEST_SUITE("numa") {
  TEST_CASE("node gives each worker its node, spread in contiguous groups") {
    const auto two = machine(2, 1, 1, 4);
    CHECK(bound(two, NumaBinding::node, 2) == "0-3,8-11 | 4-7,12-15");
    CHECK(bound(two, NumaBinding::node, 1) == "0-3,8-11");
    CHECK(bound(two, NumaBinding::node, 3) == "0-3,8-11 | 0-3,8-11 | 4-7,12-15");
  }

  TEST_CASE("socket gives all nodes of the socket") {
    CHECK(bound(machine(4, 2, 1, 1), NumaBinding::socket, 4) ==
          "0-1,4-5 | 0-1,4-5 | 2-3,6-7 | 2-3,6-7");
  }

  TEST_CASE("exclusive divides whole cores, the first workers getting the odd ones") {
    CHECK(bound(machine(1, 1, 1, 5), NumaBinding::exclusive, 2) == "0-2,5-7 | 3-4,8-9");
    CHECK(bound(machine(2, 1, 1, 2), NumaBinding::exclusive, 4) == "0,4 | 1,5 | 2,6 | 3,7");
    CHECK(bound(machine(1, 1, 1, 2), NumaBinding::exclusive, 3) ==
          "? NUMA node 0 has 2 cores for 3 workers");
  }

  TEST_CASE("core-complex deals out the caches of the node in turn") {
    CHECK(bound(machine(1, 1, 3, 2), NumaBinding::core_complex, 4) ==
          "0-1,6-7 | 2-3,8-9 | 4-5,10-11 | 0-1,6-7");
  }

  TEST_CASE("workers follow their GPUs if the kernel knows where all of these are") {
    auto topology = machine(2, 1, 1, 1);
    topology.gpu_nodes = {1, 0, 1};
    CHECK(bound(topology, NumaBinding::node, 2) == "1,3 | 0,2");
    CHECK(bound(topology, NumaBinding::exclusive, 3) == "? NUMA node 1 has 1 cores for 2 workers");
    topology.gpu_nodes = {1, -1};
    CHECK(bound(topology, NumaBinding::node, 2) == "0,2 | 1,3");
    topology.gpu_nodes = {1};
    CHECK(bound(topology, NumaBinding::node, 2) == "0,2 | 1,3");
  }

  TEST_CASE("no binding leaves the CPUs open, and an unknown topology cannot be bound") {
    CHECK(bound(machine(1, 1, 1, 1), NumaBinding::none, 2).find_first_of("0123") ==
          std::string::npos);
    CHECK(bound({}, NumaBinding::node, 1)[0] == '?');
  }

  TEST_CASE("a plan binds by the GPUs that are visible, in their order") {
    auto facts = host({{"/home/me/x", FileKind::executable}}, {{"CUDA_VISIBLE_DEVICES", "2,0"}});
    facts.installed_gpus = 3;
    facts.read_topology = [] {
      auto topology = machine(2, 1, 1, 2);
      topology.gpu_nodes = {0, 0, 1};
      return topology;
    };
    const auto plan = std::get<LaunchPlan>(make_plan(
        options_of({"--nproc_per_node=2", "--omp_num_threads=1", "--numa_binding=node", "./x"}),
        facts));
    CHECK(plan.workers[0].cpus == std::vector<int>{2, 3, 6, 7});
    CHECK(plan.workers[1].cpus == std::vector<int>{0, 1, 4, 5});
    CHECK(plan.notes == Words{"local ranks are bound to CPUs: 0 to 2-3,6-7; 1 to 0-1,4-5"});
  }

  TEST_CASE("kernel lists are read and written, and other text is none") {
    using Cpus = std::vector<int>;
    CHECK(parse_cpu_list("0-3,8,10-11\n") == Cpus{0, 1, 2, 3, 8, 10, 11});
    CHECK(parse_cpu_list("").empty());
    CHECK(parse_cpu_list("\n").empty());
    CHECK(parse_cpu_list("1-x").empty());
    CHECK(parse_cpu_list("1-2-3").empty());
    CHECK(parse_cpu_list("0-999999999").empty());
    CHECK(parse_cpu_list("-1").empty());
    CHECK(format_cpu_list({0, 1, 2, 5, 7, 8}) == "0-2,5,7-8");
    CHECK(format_cpu_list({}).empty());
  }
}

TEST_SUITE("host facts") {
  TEST_CASE("this machine has CPUs, a topology of just these, and names that do not repeat") {
    const auto facts = gather_host_facts(lookup_in({{"TMPDIR", "/elsewhere"}}));
    const auto again = gather_host_facts(lookup_in({}));
    REQUIRE_FALSE(facts.cpus.empty());
    const auto topology = facts.read_topology();
    REQUIRE(topology.cpus.size() == facts.cpus.size());
    for (std::size_t i = 0; i < facts.cpus.size(); ++i) {
      CHECK(topology.cpus[i].cpu == facts.cpus[i]);
    }
    CHECK(std::holds_alternative<std::vector<std::vector<int>>>(
        bind_workers(topology, NumaBinding::exclusive, 1)));
    CHECK(facts.program_directory == DDPRUN_BIN_DIR);
    CHECK(facts.temporary_directory == "/elsewhere");
    CHECK(again.temporary_directory == "/tmp");
    CHECK(facts.random_name.size() == 8);
    CHECK(facts.random_name != again.random_name);
    CHECK(facts.random_run_id.size() == 36);
    CHECK(facts.random_run_id != again.random_run_id);
    CHECK(facts.look_at("/") == FileKind::folder);
    CHECK(facts.look_at("/bin/sh") == FileKind::executable);
    CHECK(facts.look_at("/etc/passwd") == FileKind::not_executable);
    CHECK(facts.look_at("/no/such/file") == FileKind::missing);
  }
}
