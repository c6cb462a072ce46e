#include "launcher/plan/affinity.hpp"

#include "launcher/cli/cpu_list.hpp"
#include "launcher/plan/make_plan.hpp"
#include "tests/support/plans.hpp"

#include <doctest/doctest.h>

namespace affinity_test {

using namespace ddprun;
using namespace ddprun::test;
using Kind = Affinity::Kind;

namespace {

/// Nodes, sockets and caches of `cores_per_cache` cores; each core has two CPUs, numbered as Linux
/// does: the second CPUs of all cores come after the first ones.
Topology machine(int nodes, int nodes_per_socket, int caches_per_node, int cores_per_cache) {
  Topology topology;
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

/// The part of a machine that a container or a batch system provides.
Topology only(Topology topology, const std::string& allowed) {
  const auto cpus = parse_cpu_list(allowed);
  std::erase_if(topology.cpus, [&](const CpuFacts& facts) {
    return std::find(cpus.begin(), cpus.end(), facts.cpu) == cpus.end();
  });
  return topology;
}

Topology with_gpus(Topology topology, std::vector<int> nodes) {
  topology.gpu_nodes = std::move(nodes);
  return topology;
}

/// The bindings as lists with " | " between the workers, or "? " and the problem.
std::string bound(const Topology& topology, const Affinity& affinity, int workers) {
  const auto result = bind_workers(topology, affinity, workers);
  if (const auto* problem = std::get_if<std::string>(&result)) return "? " + *problem;
  std::string text;
  for (const auto& cpus : std::get<CpuMap>(result)) {
    text += (text.empty() ? "" : " | ") + format_cpu_list(cpus);
  }
  return text;
}

struct Row {
  Topology topology;
  Kind kind;
  int workers;
  std::string expected;
};

HostFacts facts_of(const Topology& topology) {
  auto facts = host({{"/home/me/x", FileKind::executable}});
  facts.cpus.clear();
  for (const auto& cpu : topology.cpus) facts.cpus.push_back(cpu.cpu);
  facts.read_cpus = [cpus = topology.cpus] { return cpus; };
  return facts;
}

/// OMP_NUM_THREADS of each worker.
std::string threads(const HostFacts& facts, const std::string& affinity, int workers) {
  const auto plan = plan_of({"--nproc_per_node=" + std::to_string(workers), "--affinity", affinity,
                             "--omp_num_threads=auto", "./x"},
                            facts);
  std::string text;
  for (const auto& worker : plan.workers) {
    for (const auto& [name, value] : worker.environment) {
      if (name == "OMP_NUM_THREADS") text += (text.empty() ? "" : " ") + value;
    }
  }
  return text;
}

}  // namespace

TEST_SUITE("affinity") {
  TEST_CASE("affinity: every policy assigns the expected CPUs to each worker") {
    const auto small = machine(1, 1, 1, 4);          // one socket
    const auto two = machine(2, 1, 1, 4);            // two sockets
    const auto four = machine(4, 2, 1, 1);           // two sockets of two nodes
    const auto chiplets = machine(1, 1, 3, 2);       // three caches
    const auto uneven = only(two, "0-3,8-11,4,12");  // one core of the second socket
    const Row rows[] = {
        {two, Kind::node, 2, "0-3,8-11 | 4-7,12-15"},
        {two, Kind::node, 1, "0-3,8-11"},
        {two, Kind::node, 3, "0-3,8-11 | 0-3,8-11 | 4-7,12-15"},
        {uneven, Kind::node, 5, "0-3,8-11 | 0-3,8-11 | 0-3,8-11 | 0-3,8-11 | 4,12"},
        {four, Kind::socket, 4, "0-1,4-5 | 0-1,4-5 | 2-3,6-7 | 2-3,6-7"},
        {chiplets, Kind::l3, 4, "0-1,6-7 | 2-3,8-9 | 4-5,10-11 | 0-1,6-7"},
        {small, Kind::cores, 1, "0-7"},
        {small, Kind::cores, 2, "0-1,4-5 | 2-3,6-7"},
        {small, Kind::cores, 3, "0-1,4-5 | 2,6 | 3,7"},
        {small, Kind::cores, 8, "0,4 | 0,4 | 1,5 | 1,5 | 2,6 | 2,6 | 3,7 | 3,7"},
        {two, Kind::cores, 1, "0-15"},
        {two, Kind::cores, 2, "0-3,8-11 | 4-7,12-15"},
        {two, Kind::cores, 3, "0-1,8-9 | 2-3,10-11 | 4-7,12-15"},
        {four, Kind::cores, 2, "0-1,4-5 | 2-3,6-7"},
        {four, Kind::cores, 3, "0,4 | 1,5 | 2-3,6-7"},
        {uneven, Kind::cores, 5, "0,8 | 1,9 | 2,10 | 3,11 | 4,12"},
        {uneven, Kind::cores, 2, "0-2,8-10 | 3-4,11-12"},
        {only(two, "1,4-5"), Kind::cores, 3, "1 | 4 | 5"},  // one CPU of each core
        {only(small, "0,2,4,6-7"), Kind::cores, 2, "0,2,4,6 | 7"},
        {two, Kind::exclusive, 2, "0-3,8-11 | 4-7,12-15"},
        {machine(1, 1, 1, 5), Kind::exclusive, 2, "0-2,5-7 | 3-4,8-9"},
        {machine(1, 1, 1, 2), Kind::exclusive, 3, "? NUMA node 0 has 2 cores for 3 workers"},
    };
    for (const auto& row : rows) {
      CAPTURE(static_cast<int>(row.kind));
      CHECK(bound(row.topology, {.kind = row.kind}, row.workers) == row.expected);
    }
  }

  TEST_CASE("affinity: workers are bound along shared caches regardless of CPU numbering") {
    auto topology = machine(1, 1, 1, 4);
    for (auto& cpu : topology.cpus) cpu.last_cache = cpu.core % 2;
    CHECK(bound(topology, {.kind = Kind::cores}, 2) == "0,2,4,6 | 1,3,5,7");
  }

  TEST_CASE("affinity: workers are bound near their GPUs if the NUMA node of each GPU is known") {
    const auto two = machine(2, 1, 1, 1);
    CHECK(bound(with_gpus(two, {1, 0, 1}), {.kind = Kind::node}, 2) == "1,3 | 0,2");
    CHECK(bound(with_gpus(two, {1, 0, 1}), {.kind = Kind::exclusive}, 3) ==
          "? NUMA node 1 has 1 cores for 2 workers");
    CHECK(bound(with_gpus(two, {1, 0, 1}), {.kind = Kind::cores}, 3) == "1,3 | 0,2 | 1,3");
    CHECK(bound(with_gpus(two, {1}), {.kind = Kind::cores}, 1) == "1,3");
    CHECK(bound(with_gpus(two, {1, -1}), {.kind = Kind::node}, 2) == "0,2 | 1,3");
    CHECK(bound(with_gpus(two, {1}), {.kind = Kind::node}, 2) == "0,2 | 1,3");
    CHECK(bound(with_gpus(two, {5, 5}), {.kind = Kind::node}, 2) == "0,2 | 1,3");
    // Two sockets of eight GPUs, in the bus order of some machines.
    const auto large =
        with_gpus(machine(2, 1, 1, 8), {1, 1, 1, 1, 0, 0, 0, 0, 1, 1, 1, 1, 0, 0, 0, 0});
    CHECK(bound(large, {.kind = Kind::cores}, 16) ==
          "8,24 | 9,25 | 10,26 | 11,27 | 0,16 | 1,17 | 2,18 | 3,19 | "
          "12,28 | 13,29 | 14,30 | 15,31 | 4,20 | 5,21 | 6,22 | 7,23");
    CHECK(bound(large, {.kind = Kind::cores}, 4) ==
          "8-9,24-25 | 10-11,26-27 | 12-13,28-29 | 14-15,30-31");
  }

  TEST_CASE("affinity: CPU lists must match the number of workers and contain only allowed CPUs") {
    const auto topology = only(machine(1, 1, 1, 4), "1-7");
    const Affinity lists{.kind = Kind::list, .lists = {{1, 2, 3}, {3, 7}}};
    CHECK(bound(topology, lists, 2) == "1-3 | 3,7");
    CHECK(bound(topology, lists, 3) == "? there are 2 lists of CPUs for 3 workers");
    CHECK(bound(topology, lists, 1) == "? there are 2 lists of CPUs for 1 worker");
    CHECK(bound(only(topology, "1-6"), lists, 2) ==
          "? CPU 7 of local rank 1 is not among the CPUs that ddprun may use (1-6)");
  }

  TEST_CASE("affinity: no CPUs are bound without a policy or an allowed CPU") {
    CHECK(bound(machine(1, 1, 1, 1), {}, 2).find_first_of("0123") == std::string::npos);
    CHECK(bound({}, {.kind = Kind::node}, 1)[0] == '?');
  }

  TEST_CASE("affinity: a worker counts its exclusive cores and a fraction of its shared cores") {
    const auto topology = machine(1, 1, 1, 4);
    CHECK(cores_of_each(topology, {{0, 1, 4, 5}, {2, 6}}) == std::vector<int>{2, 1});
    CHECK(cores_of_each(topology, {{0, 1, 2}, {0, 1, 2}, {0, 1, 2}}) == std::vector<int>{1, 1, 1});
    CHECK(cores_of_each(topology, {{0, 1, 2, 3}, {3}}) == std::vector<int>{3, 1});
  }

  TEST_CASE("affinity: the map merges neighbours with equal CPUs and has a limited length") {
    CHECK(describe_map(machine(1, 1, 1, 2), {{0, 2}, {1, 3}}) == "rank 0: 0,2; rank 1: 1,3");
    CHECK(describe_map(machine(2, 1, 1, 2), {{0}, {1}, {2, 3}, {2, 3}, {0, 3}}) ==
          "rank 0: 0; rank 1: 1 (NUMA node 0); ranks 2-3: 2-3 (NUMA node 1); rank 4: 0,3");
    CpuMap large;
    for (int rank = 0; rank < 40; ++rank) large.push_back({rank % 4});
    const auto text = describe_map(machine(1, 1, 1, 4), large);
    CHECK(text.find("rank 31: 3; and 8 more") != std::string::npos);
    CHECK(text.find("rank 32") == std::string::npos);
  }
}

TEST_SUITE("cpu plan") {
  TEST_CASE("cpu plan: node binding follows the order of CUDA_VISIBLE_DEVICES and is noted") {
    auto facts = facts_of(machine(2, 1, 1, 2));
    facts.environment = lookup_in({{"CUDA_VISIBLE_DEVICES", "GPU-c,GPU-a"}, {"PATH", "/usr/bin"}});
    facts.installed_gpus = 3;
    facts.read_gpus = [] {
      return std::vector<GpuFacts>{{"GPU-aa", 0}, {"GPU-bb", 0}, {"GPU-cc", 1}};
    };
    for (const std::string option : {"--numa_binding=node", "--affinity=node"}) {
      const auto plan =
          plan_of({"--nproc_per_node=2", "--omp_num_threads=1", option, "./x"}, facts);
      CHECK(plan.workers[0].cpus == std::vector<int>{2, 3, 6, 7});
      CHECK(plan.workers[0].memory_node == 1);
      CHECK(plan.workers[1].cpus == std::vector<int>{0, 1, 4, 5});
      CHECK(plan.workers[1].memory_node == 0);
      CHECK(plan.notes ==
            Strings{"CPUs: rank 0: 2-3,6-7 (NUMA node 1); rank 1: 0-1,4-5 (NUMA node 0)"});
    }
  }

  TEST_CASE("cpu plan: workers counted by GPU are bound to the nodes of their GPUs by default") {
    auto facts = facts_of(machine(2, 1, 1, 2));
    facts.environment = lookup_in({{"OMP_NUM_THREADS", "2"}});
    facts.installed_gpus = 2;
    std::vector<GpuFacts> gpus{{"GPU-a", 1}, {"GPU-b", 0}};
    facts.read_gpus = [&gpus] { return gpus; };
    const auto cpus = [&](const Strings& options) {
      auto words = options;
      words.emplace_back("./x");
      const auto plan = plan_of(words, facts);
      CHECK(plan.notes.empty() == plan.workers[0].cpus.empty());
      std::string text;
      for (const auto& worker : plan.workers) text += "|" + format_cpu_list(worker.cpus);
      return text;
    };
    CHECK(cpus({"--nproc_per_node=gpu"}) == "|2-3,6-7|0-1,4-5");
    CHECK(cpus({"--nproc_per_node=auto"}) == "|2-3,6-7|0-1,4-5");
    CHECK(cpus({"--nproc_per_node=1", "--virtual_local_rank"}) == "|2-3,6-7");
    CHECK(cpus({"--nproc_per_node=gpu", "--affinity=cores"}) == "|2-3,6-7|0-1,4-5");
    CHECK(cpus({"--nproc_per_node=gpu", "--affinity=none"}) == "||");
    CHECK(cpus({"--nproc_per_node=gpu", "--numa_binding=exclusive"}) == "|2-3,6-7|0-1,4-5");
    CHECK(cpus({"--nproc_per_node=2"}) == "||");
    CHECK(cpus({"--nproc_per_node=cpu"}) == "||||||||");
    CHECK(plan_of({"--nproc_per_node=gpu", "./x"}, facts).notes ==
          Strings{"CPUs: rank 0: 2-3,6-7 (NUMA node 1); rank 1: 0-1,4-5 (NUMA node 0); "
                  "--affinity=none changes that"});
    gpus[1].node = -1;
    CHECK(cpus({"--nproc_per_node=gpu"}) == "||");
  }

  TEST_CASE("cpu plan: the default leaves workers unbound if the binding takes most CPUs") {
    const auto two = machine(2, 1, 1, 4);
    CHECK(default_affinity(with_gpus(two, {0, 1}), 2) == Kind::node);
    CHECK(default_affinity(with_gpus(two, {0, 0}), 2) == Kind::node);
    CHECK(default_affinity(with_gpus(two, {0, 1, 1}), 4) == Kind::none);
    CHECK(default_affinity(with_gpus(two, {0, 2}), 2) == Kind::none);
    CHECK(default_affinity(with_gpus(machine(1, 1, 1, 4), {0, 0}), 2) == Kind::none);
    CHECK(default_affinity(with_gpus(only(two, "0-3,8-11,4,12"), {0, 1}), 2) == Kind::none);
    CHECK(default_affinity(with_gpus(only(two, "0-3,8-11,4-5"), {0, 0}), 2) == Kind::node);
  }

  TEST_CASE("cpu plan: workers that share a core are reported") {
    const auto plan =
        plan_of({"--nproc_per_node=3", "--omp_num_threads=1", "--affinity=cores", "./x"},
                facts_of(machine(1, 1, 1, 2)));
    CHECK(plan.notes[0] == "CPUs: ranks 0-1: 0,2; rank 2: 1,3");
    CHECK(plan.notes[1] ==
          "--affinity: there are more workers (3) than cores for them: some share a core");
  }

  TEST_CASE("cpu plan: a problem names the option that causes it") {
    const auto problem = [](const Strings& words) {
      return objections_to(words, facts_of(machine(1, 1, 1, 1)));
    };
    CHECK(contains(problem({"--affinity=exclusive", "--nproc_per_node=2", "./x"}),
                   "--affinity: NUMA node 0 has 1 cores"));
    CHECK(contains(problem({"--numa_binding=exclusive", "--nproc_per_node=2", "./x"}),
                   "--numa_binding: NUMA node 0 has 1 cores"));
    CHECK(
        contains(problem({"--numa_binding=node", "--affinity=node", "./x"}), "exclude each other"));
  }

  TEST_CASE("cpu plan: auto threads equal a worker's bound cores or its share of usable CPUs") {
    auto facts = facts_of(machine(2, 1, 1, 4));
    CHECK(threads(facts, "none", 4) == "4 4 4 4");
    CHECK(threads(facts, "cores", 4) == "2 2 2 2");
    CHECK(threads(facts, "cores", 3) == "2 2 4");
    CHECK(threads(facts, "node", 4) == "2 2 2 2");
    CHECK(threads(facts, "cores", 32) == threads(facts, "none", 32));
    CHECK(threads(facts, "0-7;0-1", 2) == "7 1");
    facts.cpu_quota = 3.9;
    CHECK(threads(facts, "none", 2) == "1 1");
    CHECK(threads(facts, "none", 1) == "3");
    CHECK(threads(facts, "cores", 1) == "3");
    CHECK(threads(facts, "0-7;8", 2) == "1 1");
  }
}

TEST_SUITE("cpu list") {
  TEST_CASE("cpu list: the kernel's format is parsed and printed and malformed text is rejected") {
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

}  // namespace affinity_test
