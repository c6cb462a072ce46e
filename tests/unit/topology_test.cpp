// Topology of this machine, and of simulated machines in folders of a test.
#include "launcher/plan/topology.hpp"

#include "launcher/cli/cpu_list.hpp"
#include "launcher/plan/affinity.hpp"
#include "launcher/plan/cgroup_folder.hpp"
#include "launcher/plan/visible_gpus.hpp"
#include "tests/support/hosts.hpp"
#include "tests/support/temporary_folder.hpp"

#include <doctest/doctest.h>

#include <fstream>

namespace topology_test {

using namespace ddprun;
using namespace ddprun::test;
namespace fs = std::filesystem;

namespace {

/// A root folder with the required files of sysfs and /proc.
class FakeMachine {
 public:
  const fs::path& root() const { return folder_.path(); }

  void write(const std::string& file, const std::string& text) const {
    const auto path = root() / file;
    fs::create_directories(path.parent_path());
    std::ofstream(path) << text << "\n";
  }

  void add_cpu(int cpu, const std::string& siblings, int node, int socket,
               const std::string& cache) const {
    const auto folder = "sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/";
    write(folder + "topology/thread_siblings_list", siblings);
    write(folder + "topology/physical_package_id", std::to_string(socket));
    write(folder + "cache/index0/level", "1");
    write(folder + "cache/index0/shared_cpu_list", siblings);
    write(folder + "cache/index3/level", "3");
    write(folder + "cache/index3/shared_cpu_list", cache);
    fs::create_directories(root() / folder / ("node" + std::to_string(node)));
  }

  /// In the driver's folder and on the bus.
  void add_gpu(const std::string& address, const std::string& uuid, int node, int minor) const {
    write("proc/driver/nvidia/gpus/" + address + "/information",
          "Model: \t\t NVIDIA H100\nIRQ:   \t\t 0\nGPU UUID: \t " + uuid +
              "\nVideo BIOS: \t 96\nDevice Minor: \t " + std::to_string(minor));
    write("sys/bus/pci/devices/" + address + "/numa_node", std::to_string(node));
  }

  /// A GPU instance or a compute instance, and the minor number of its device file.
  void add_mig(const std::string& instance, int minor) const {
    write("proc/driver/nvidia/capabilities/" + instance + "/access",
          "DeviceFileMinor: " + std::to_string(minor) + "\nDeviceFileMode: 292");
  }

 private:
  TemporaryFolder folder_;
};

/// Sockets of `cores` cores with two CPUs each, one node and one cache per socket.
void add_sockets(const FakeMachine& machine, int sockets, int cores) {
  const int all = sockets * cores;
  for (int cpu = 0; cpu < 2 * all; ++cpu) {
    const int core = cpu % all;
    const int socket = core / cores;
    const int first = socket * cores;
    const auto range = [&](int begin) {
      return std::to_string(begin) + "-" + std::to_string(begin + cores - 1);
    };
    machine.add_cpu(cpu, std::to_string(core) + "," + std::to_string(core + all), socket, socket,
                    range(first) + "," + range(first + all));
  }
}

CpuMap shares(const FakeMachine& machine, const std::string& allowed, int workers) {
  const auto cpus = read_cpus(machine.root(), parse_cpu_list(allowed));
  return std::get<CpuMap>(
      bind_workers({.cpus = cpus, .gpu_nodes = {}}, {.kind = Affinity::Kind::cores}, workers));
}

using Gpus = std::vector<std::string>;

Gpus visible(const std::string& variable, int installed, const std::vector<GpuFacts>& gpus = {}) {
  return visible_gpus(variable, installed, {}, [gpus] { return gpus; });
}

}  // namespace

TEST_SUITE("topology") {
  TEST_CASE("topology: each CPU counts as a core if thread and NUMA files are missing") {
    const FakeMachine machine;
    for (int cpu = 0; cpu < 4; ++cpu) {
      machine.write("sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/x", "");
    }
    const auto cpus = read_cpus(machine.root(), {0, 1, 2, 3});
    CHECK(cpus[3] == CpuFacts{.cpu = 3, .node = 0, .socket = 0, .core = 3, .last_cache = 3});
    CHECK(shares(machine, "0-3", 2) == CpuMap{{0, 1}, {2, 3}});
  }

  TEST_CASE("topology: sockets and threads and caches and NUMA nodes are read") {
    const FakeMachine machine;
    add_sockets(machine, 2, 4);
    const auto cpus = read_cpus(machine.root(), {1, 6, 14});
    CHECK(cpus[0] == CpuFacts{.cpu = 1, .node = 0, .socket = 0, .core = 1, .last_cache = 0});
    CHECK(cpus[1] == CpuFacts{.cpu = 6, .node = 1, .socket = 1, .core = 6, .last_cache = 4});
    CHECK(cpus[2] == CpuFacts{.cpu = 14, .node = 1, .socket = 1, .core = 6, .last_cache = 4});
    CHECK(shares(machine, "0-15", 4) ==
          CpuMap{{0, 1, 8, 9}, {2, 3, 10, 11}, {4, 5, 12, 13}, {6, 7, 14, 15}});
  }

  TEST_CASE("topology: offline and disallowed CPUs are not used") {
    const FakeMachine machine;
    add_sockets(machine, 1, 4);
    // CPU 5, the second of core 1, is offline: the kernel omits it from the list of its sibling.
    machine.add_cpu(1, "1", 0, 0, "0-4,6-7");
    CHECK(shares(machine, "0-4,6-7", 4) == CpuMap{{0, 4}, {1}, {2, 6}, {3, 7}});
    // A container with three CPUs.
    CHECK(shares(machine, "2-4", 2) == CpuMap{{2, 4}, {3}});
    CHECK(shares(machine, "2-4", 3) == CpuMap{{4}, {2}, {3}});
  }

  TEST_CASE("topology: GPUs are listed by bus id with UUID and NUMA node if known") {
    const FakeMachine machine;
    machine.add_gpu("0000:c1:00.0", "GPU-c", 1, 2);
    machine.add_gpu("0000:1b:00.0", "GPU-a", 0, 0);
    machine.add_gpu("0000:43:00.0", "GPU-" + std::string(36, '?'), -1, 1);
    CHECK(read_gpus(machine.root()) == std::vector<GpuFacts>{{"GPU-a", 0}, {"", -1}, {"GPU-c", 1}});
    CHECK(read_gpus(machine.root() / "nowhere").empty());
  }

  TEST_CASE("topology: a container's GPUs are those with a device file") {
    const FakeMachine machine;
    CHECK(count_gpus(machine.root()) == 0);
    for (const int gpu : {0, 1, 2}) {
      machine.add_gpu("0000:0" + std::to_string(gpu) + ":00.0", "GPU-" + std::to_string(gpu), gpu,
                      2 - gpu);
    }
    CHECK(count_gpus(machine.root()) == 3);
    CHECK(read_gpus(machine.root()).size() == 3);
    for (const char* other : {"nvidiactl", "nvidia-uvm", "nvidia-caps/nvidia-cap1"})
      machine.write(std::string("dev/") + other, "");
    CHECK(count_gpus(machine.root()) == 3);
    machine.write("dev/nvidia2", "");
    CHECK(count_gpus(machine.root()) == 1);
    CHECK(read_gpus(machine.root()) == std::vector<GpuFacts>{{"GPU-0", 0}});
    const FakeMachine without_driver;
    without_driver.write("dev/nvidia0", "");
    without_driver.write("dev/nvidia10", "");
    CHECK(count_gpus(without_driver.root()) == 2);
  }

  TEST_CASE("topology: MIG devices are listed if the process has their capabilities") {
    const FakeMachine machine;
    machine.add_gpu("0000:0a:00.0", "GPU-a", 0, 0);
    machine.add_gpu("0000:0b:00.0", "GPU-b", 1, 1);
    machine.write("proc/driver/nvidia/capabilities/mig/config", "DeviceFileMinor: 1");
    CHECK(read_divided_gpus(machine.root()).empty());
    fs::create_directories(machine.root() / "proc/driver/nvidia/capabilities/gpu1/mig");
    CHECK(read_divided_gpus(machine.root()).empty());
    machine.add_mig("gpu1/mig/gi1", 30);
    machine.add_mig("gpu1/mig/gi1/ci0", 31);
    machine.add_mig("gpu1/mig/gi2", 33);
    machine.add_mig("gpu1/mig/gi2/ci0", 34);
    machine.add_mig("gpu1/mig/gi2/ci1", 35);
    CHECK(read_divided_gpus(machine.root()) == Gpus{"GPU-a"});
    for (const int file : {30, 31, 33, 35})
      machine.write("dev/nvidia-caps/nvidia-cap" + std::to_string(file), "");
    CHECK(read_divided_gpus(machine.root()) == Gpus{"GPU-a", "MIG-GPU-b/1/0", "MIG-GPU-b/2/1"});
    machine.write("dev/nvidia1", "");
    CHECK(read_divided_gpus(machine.root()) == Gpus{"MIG-GPU-b/1/0", "MIG-GPU-b/2/1"});
    machine.add_gpu("0000:0b:00.0", "GPU-" + std::string(36, '?'), 1, 1);
    CHECK(read_divided_gpus(machine.root()).empty());
  }

  TEST_CASE("topology: the CPU quota is the minimum of all cgroup levels in both versions") {
    const FakeMachine machine;
    machine.write("proc/self/cgroup", "4:cpu,cpuacct:/job/step\n0::/job/step");
    machine.write("proc/self/mounts",
                  "cgroup /sys/fs/cgroup/cpu cgroup rw,cpu,cpuacct 0 0\n"
                  "cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0");
    CHECK(read_cpu_quota(machine.root()) == 0);
    const std::string unified = "sys/fs/cgroup/unified/", first = "sys/fs/cgroup/cpu/";
    machine.write(unified + "job/step/cpu.max", "max 100000");
    CHECK(read_cpu_quota(machine.root()) == 0);
    machine.write(unified + "job/cpu.max", "650000 100000");
    CHECK(read_cpu_quota(machine.root()) == 6.5);
    machine.write(first + "job/step/cpu.cfs_quota_us", "-1");
    machine.write(first + "job/step/cpu.cfs_period_us", "100000");
    CHECK(read_cpu_quota(machine.root()) == 6.5);
    machine.write(first + "cpu.cfs_quota_us", "200000");
    machine.write(first + "cpu.cfs_period_us", "50000");
    CHECK(read_cpu_quota(machine.root()) == 4);
    CHECK(read_cpu_quota(machine.root() / "nowhere") == 0);
  }
}

TEST_SUITE("cgroup folder") {
  TEST_CASE("cgroup folder: the folder is found in hybrid and unified hierarchies") {
    const auto folder = [](std::string_view cgroups, std::string_view mounts,
                           std::string_view controller = {}) {
      const auto own = own_cgroup(cgroups, mounts, controller);
      return own ? own->folder.string() : "none";
    };
    const std::string unified = "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n";
    const std::string hybrid =
        "cgroup /sys/fs/cgroup/memory cgroup rw,memory 0 0\n"
        "cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n";
    CHECK(folder("0::/user.slice/a\n", unified) == "/sys/fs/cgroup/user.slice/a");
    CHECK(folder("4:memory:/x\n0::/\n", hybrid) == "/sys/fs/cgroup/unified");
    CHECK(folder("4:memory:/x\n0::/\n", hybrid, "memory") == "/sys/fs/cgroup/memory/x");
    CHECK(folder("4:memory:/x\n0::/\n", hybrid, "cpu") == "none");
    CHECK(folder("4:memory:/x\n", hybrid) == "none");
    CHECK(folder("0::/../other\n", unified) == "none");
    CHECK(folder("0::/\n", "cgroup /sys/fs/cgroup/memory cgroup rw 0 0\n") == "none");
    CHECK(folder("", "") == "none");
  }
}

TEST_SUITE("visible gpus") {
  TEST_CASE("visible GPUs: all GPUs are visible without the variable") {
    const auto none = [] { return std::vector<GpuFacts>(); };
    CHECK(visible_gpus({}, 0, {}, none).empty());
    CHECK(visible_gpus({}, 2, {}, none) == Gpus{"0", "1"});
    CHECK(visible_gpus({}, 1, {"MIG-GPU-a/1/0", "MIG-GPU-a/2/0"}, none) ==
          Gpus{"MIG-GPU-a/1/0", "MIG-GPU-a/2/0"});
    CHECK(visible_gpus("0", 1, {"MIG-GPU-a/1/0", "MIG-GPU-a/2/0"}, none) == Gpus{"0"});
  }

  TEST_CASE("visible GPUs: indices count up to the first invalid one like in CUDA") {
    CHECK(visible("1,0", 2) == Gpus{"1", "0"});
    CHECK(visible(" 1 , 0", 2) == Gpus{"1", "0"});
    CHECK(visible("", 2).empty());
    CHECK(visible("0,2,1", 2) == Gpus{"0"});
    CHECK(visible("0,1,2,-1,3", 4) == Gpus{"0", "1", "2"});
    CHECK(visible("NoDevFiles", 2).empty());
    CHECK(visible("3,2,two,1", 4) == Gpus{"3", "2"});
    CHECK(visible("1gpu2,2ampere", 4) == Gpus{"1", "2"});
    CHECK(visible("2,+3,-0,5", 8) == Gpus{"2", "3", "0", "5"});
    CHECK(visible("0,1,0", 2).empty());
    CHECK(visible("0,GPU-a,1", 2) == Gpus{"0"});
    CHECK(visible("0,1", 0).empty());
    CHECK(visible("99999999999999999999", 2).empty());
  }

  TEST_CASE("visible GPUs: abbreviated UUIDs count up to the first unknown one") {
    const std::vector<GpuFacts> gpus{{"GPU-11-a", 0}, {"GPU-12-b", 1}};
    CHECK(visible("GPU-12,GPU-11", 2, gpus) == Gpus{"GPU-12", "GPU-11"});
    CHECK(visible("GPU-12-b, GPU-11-a", 2, gpus) == Gpus{"GPU-12-b", "GPU-11-a"});
    CHECK(visible("GPU-1", 2, gpus).empty());
    CHECK(visible("GPU-11,GPU-9,GPU-12", 2, gpus) == Gpus{"GPU-11"});
    CHECK(visible("GPU-11,1", 2, gpus) == Gpus{"GPU-11"});
    CHECK(visible("GPU-11,GPU-11", 2, gpus).empty());
    // The node is unknown.
    CHECK(visible("GPU-9,GPU-8", 2) == Gpus{"GPU-9", "GPU-8"});
    CHECK(visible("GPU-9", 2, {{"GPU-11", 0}, {"", 0}}) == Gpus{"GPU-9"});
  }

  TEST_CASE("visible GPUs: MIG device names are passed through unchanged") {
    CHECK(visible("MIG-1,MIG-2", 1) == Gpus{"MIG-1", "MIG-2"});
    CHECK(visible("MIG-GPU-7/1/0,GPU-7", 1) == Gpus{"MIG-GPU-7/1/0"});
  }

  TEST_CASE("visible GPUs: a visible GPU has the NUMA node of its physical GPU") {
    const std::vector<GpuFacts> gpus{{"GPU-a", 0}, {"GPU-b", 1}};
    CHECK(nodes_of_gpus({"1", "0", "2"}, gpus) == std::vector<int>{1, 0, -1});
    CHECK(nodes_of_gpus({"MIG-GPU-b/1/0", "MIG-GPU-c/1/0", "MIG-2f"}, gpus) ==
          std::vector<int>{1, -1, -1});
    CHECK(nodes_of_gpus({"GPU-b", "GPU-x", "MIG-1"}, gpus) == std::vector<int>{1, -1, -1});
  }
}

TEST_SUITE("host facts") {
  TEST_CASE("topology: the topology of this machine is consistent") {
    const auto facts = gather_host_facts(lookup_in({{"TMPDIR", "/elsewhere"}}));
    const auto again = gather_host_facts(lookup_in({{"TMPDIR", ""}}));
    REQUIRE_FALSE(facts.cpus.empty());
    const auto cpus = facts.read_cpus();
    REQUIRE(cpus.size() == facts.cpus.size());
    for (std::size_t i = 0; i < cpus.size(); ++i) CHECK(cpus[i].cpu == facts.cpus[i]);
    CHECK(facts.program_directory == DDPRUN_BIN_DIR);
    CHECK(facts.temporary_directory == "/elsewhere");
    CHECK(again.temporary_directory == "/tmp");
    CHECK(facts.random_name.size() == 8);
    CHECK(facts.random_name != again.random_name);
    CHECK(facts.random_run_id.size() == 36);
    CHECK(facts.random_run_id != again.random_run_id);
    CHECK(facts.file_kind("/") == FileKind::folder);
    CHECK(facts.file_kind("/bin/sh") == FileKind::executable);
    CHECK(facts.file_kind("/etc/passwd") == FileKind::not_executable);
    CHECK(facts.file_kind("/no/such/file") == FileKind::missing);
  }
}

}  // namespace topology_test
