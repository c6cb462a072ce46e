// Machines for tests of plans: their files, CPUs and variables are plain values.
#pragma once

#include "launcher/plan/host_facts.hpp"
#include "tests/support/command_lines.hpp"

#include <map>
#include <string>

namespace ddprun::test {

using Files = std::map<std::string, FileKind>;

/// Returns a machine with four CPUs, no GPU, a python3 in PATH, and these files and variables.
inline HostFacts host(Files files = {}, Variables variables = {}) {
  variables.emplace("PATH", "/usr/local/bin:/usr/bin");
  files.emplace("/usr/bin/python3", FileKind::executable);
  HostFacts facts;
  facts.cpus = {0, 1, 2, 3};
  facts.working_directory = "/home/me";
  facts.program_directory = "/opt/ddprun/bin";
  facts.temporary_directory = "/tmp";
  facts.random_name = "abcd1234";
  facts.random_run_id = "00000000-0000-4000-8000-000000000000";
  facts.environment = lookup_in(variables);
  facts.file_kind = [files](const std::filesystem::path& path) {
    const auto found = files.find(path.lexically_normal().string());
    return found == files.end() ? FileKind::missing : found->second;
  };
  facts.read_cpus = [] { return std::vector<CpuFacts>{}; };
  facts.read_gpus = [] { return std::vector<GpuFacts>{}; };
  facts.find_pytorch = [](const auto&, const auto&) { return std::nullopt; };
  facts.read_program = [](const auto&) { return std::string(); };
  return facts;
}

}  // namespace ddprun::test
