#include "launcher/plan/host_facts.hpp"

#include "rendezvous/base/held_path.hpp"
#include "rendezvous/base/random_bytes.hpp"
#include "rendezvous/base/unique_fd.hpp"
#include <ddprun/error.hpp>

#include <limits.h>
#include <sched.h>

#include <fcntl.h>
#include <sys/auxv.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

namespace ddprun {

namespace {

namespace fs = std::filesystem;

// Linux' limit (CONFIG_NR_CPUS).
constexpr int kCpusMax = 8192;

std::vector<int> allowed_cpus() {
  cpu_set_t* set = CPU_ALLOC(kCpusMax);
  const auto bytes = CPU_ALLOC_SIZE(kCpusMax);
  std::vector<int> cpus;
  if (::sched_getaffinity(0, bytes, set) == 0) {
    for (int cpu = 0; cpu < kCpusMax; ++cpu) {
      if (CPU_ISSET_S(static_cast<std::size_t>(cpu), bytes, set)) cpus.push_back(cpu);
    }
  }
  CPU_FREE(set);
  return cpus;
}

FileKind file_kind(const fs::path& path) {
  struct stat status;
  if (::stat(path.c_str(), &status) != 0) return FileKind::missing;
  if (S_ISDIR(status.st_mode)) return FileKind::folder;
  return ::access(path.c_str(), X_OK) == 0 ? FileKind::executable : FileKind::not_executable;
}

std::string read_program(const fs::path& path) {
  constexpr std::size_t kProgramBytesMax = std::size_t{1} << 20;
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  struct stat status;
  // Another kind of file could be read only once.
  const bool is_regular = ::fstat(file.get(), &status) == 0 && S_ISREG(status.st_mode);
  return is_regular ? read_at_most(file.get(), kProgramBytesMax) : "";
}

std::uint64_t open_files_max() {
  rlimit limit{};
  return ::getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : 0;
}

std::string random_name() {
  constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyz234567";
  auto name = random_bytes(8);
  for (char& letter : name) letter = kLetters[static_cast<unsigned char>(letter) % kLetters.size()];
  return name;
}

std::string random_uuid() {
  auto bytes = random_bytes(16);
  bytes[6] = static_cast<char>((bytes[6] & 0x0f) | 0x40);  // version 4: random
  bytes[8] = static_cast<char>((bytes[8] & 0x3f) | 0x80);  // the variant of RFC 4122
  auto uuid = hexadecimal(bytes);
  for (const std::size_t dash : {8, 13, 18, 23}) uuid.insert(dash, 1, '-');
  return uuid;
}

fs::path current_folder() {
  std::error_code error;
  auto folder = fs::current_path(error);
  if (error) {
    throw_system_error("cannot determine the current folder; has it been removed?", error.value());
  }
  return folder;
}

/// Uses the name passed to execve: a shell that found ddprun in PATH passes the whole path.
fs::path called_in(const fs::path& working_directory) {
  const auto* name = reinterpret_cast<const char*>(::getauxval(AT_EXECFN));
  if (name == nullptr) return {};
  return (working_directory / name).lexically_normal().parent_path();
}

std::string host_name() {
  char name[HOST_NAME_MAX + 1] = {};
  return ::gethostname(name, sizeof name - 1) == 0 ? name : "localhost";
}

}  // namespace

HostFacts gather_host_facts(const EnvironmentLookup& environment) {
  std::error_code error;
  HostFacts facts;
  facts.cpus = allowed_cpus();
  facts.cpu_quota = read_cpu_quota("/");
  facts.installed_gpus = count_gpus("/");
  if (facts.installed_gpus > 0) facts.divided_gpus = read_divided_gpus("/");
  facts.open_files_max = open_files_max();
  facts.working_directory = current_folder();
  facts.program_directory = fs::read_symlink("/proc/self/exe", error).parent_path();
  facts.called_in = called_in(facts.working_directory);
  const auto temporary = environment("TMPDIR").value_or("");
  // Workers may enter another folder before they use their files below it.
  facts.temporary_directory = temporary.empty() ? "/tmp" : facts.working_directory / temporary;
  facts.random_name = random_name();
  facts.host_name = host_name();
  facts.random_run_id = random_uuid();
  facts.environment = environment;
  facts.file_kind = file_kind;
  facts.read_cpus = [cpus = facts.cpus] { return ddprun::read_cpus("/", cpus); };
  facts.read_gpus = [] { return ddprun::read_gpus("/"); };
  facts.find_pytorch = find_pytorch;
  facts.read_program = read_program;
  return facts;
}

}  // namespace ddprun
