#include "launcher/process/exec_failure.hpp"

#include "launcher/plan/cgroup_folder.hpp"
#include "launcher/process/other_formats.hpp"

#include <elf.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string_view>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

namespace ddprun {

namespace {

namespace fs = std::filesystem;

/// Returns the first bytes, enough for an ELF header or the interpreter line.
std::string head_of(const fs::path& file) {
  std::array<char, 256> bytes{};
  std::ifstream stream(file, std::ios::binary);
  stream.read(bytes.data(), bytes.size());
  return {bytes.data(), static_cast<std::size_t>(stream.gcount())};
}

/// Returns the program in a first line "#!program argument".
std::optional<std::string> interpreter_of(const std::string& head) {
  if (head.rfind("#!", 0) != 0) return std::nullopt;
  const auto begin = head.find_first_not_of(" \t", 2);
  if (begin == std::string::npos || head[begin] == '\n') return "";
  return head.substr(begin, head.find_first_of(" \t\n", begin) - begin);
}

std::string machine_of(const std::string& head) {
  if (head.rfind(ELFMAG, 0) != 0 || head.size() < sizeof(Elf64_Ehdr)) return "";
  std::uint16_t machine = 0;
  std::memcpy(&machine, head.data() + offsetof(Elf64_Ehdr, e_machine), sizeof(machine));
  switch (machine) {
    case EM_X86_64:
      return "x86_64";
    case EM_AARCH64:
      return "aarch64";
    case EM_386:
      return "i386";
    case EM_ARM:
      return "arm";
    case EM_PPC64:
      return "ppc64";
    case EM_RISCV:
      return "riscv";
    default:
      return "another machine (" + std::to_string(machine) + ")";
  }
}

std::string this_machine() {
  utsname names{};
  ::uname(&names);
  return names.machine;
}

/// Describes a missing interpreter.
Problem interpreter_problem(const std::optional<std::string>& interpreter) {
  if (!interpreter) return std::nullopt;
  if (interpreter->ends_with('\r'))
    return "its first line ends with a carriage return, so its interpreter '" +
           interpreter->substr(0, interpreter->size() - 1) +
           "' is not found (convert the file to Unix line ends)";
  return "its interpreter '" + *interpreter + "' (first line of the file) does not exist";
}

std::string explain_missing(const fs::path& file, const std::string& program) {
  std::error_code error;
  if (!fs::exists(file, error))
    return "the file does not exist" +
           std::string(program.find('/') == std::string::npos ? "" : " (is the path right?)");
  if (auto problem = interpreter_problem(interpreter_of(head_of(file)))) return *problem;
  return "the file exists but its dynamic loader does not (was it built for another system?)";
}

std::string explain_denied(const fs::path& file) {
  struct stat status {};
  if (::stat(file.c_str(), &status) != 0) return "a folder on its path may not be searched";
  if (S_ISDIR(status.st_mode)) return "it is a folder, not a program";
  if (!S_ISREG(status.st_mode)) return "it is not a regular file";
  if (::access(file.c_str(), X_OK) != 0)
    return "the file is not executable (chmod +x it, or name the program that is to run it)";
  const auto interpreter = interpreter_of(head_of(file));
  if (interpreter && ::access(interpreter->c_str(), X_OK) != 0)
    return "its interpreter '" + *interpreter + "' (first line of the file) is not executable";
  return "permission denied (is its file system mounted noexec?)";
}

std::string explain_format(const fs::path& file) {
  const auto head = head_of(file);
  if (head.empty()) return "the file is empty";
  if (const auto interpreter = interpreter_of(head))
    return interpreter->empty() ? "its first line names no interpreter after #!"
                                : "its interpreter '" + *interpreter + "' cannot be run";
  const auto machine = machine_of(head);
  if (!machine.empty() && machine != this_machine())
    return "it was built for " + machine + ", and this machine is " + this_machine();
  if (!machine.empty()) return "it is a damaged program or a library";
  return "it is neither a program nor a script with a first line such as #!/bin/sh";
}

std::string explain_exec(const StartFailure& failure, const std::string& program,
                         const std::string& folder) {
  const fs::path file = folder.empty() ? fs::path(program) : fs::path(folder) / program;
  std::error_code error;
  if (folder.empty() && fs::path(program).is_relative() && fs::current_path(error).empty())
    return "the current folder has been removed";
  switch (failure.error_number) {
    case ENOENT:
      return explain_missing(file, program);
    case EACCES:
    case EPERM:
      return explain_denied(file);
    case ENOEXEC:
      return explain_format(file);
    case ENOTDIR:
      return "a part of its path is not a folder";
    case E2BIG:
      return "arguments and environment together are too long (the kernel allows a quarter of the "
             "stack limit, and 128 KiB for one argument)";
    case ETXTBSY:
      return "the file is open for writing (is it being built or copied?)";
    case ELOOP:
      return "too many symbolic links, or scripts that name each other as interpreter";
    case ELIBBAD:
      return "its dynamic loader was built for another architecture";
    case ENOMEM:
      return "there is not enough memory to load it";
    case ETIMEDOUT:
      return "it was not running in time (is the file system that holds it hanging?)";
    default:
      return std::strerror(failure.error_number);
  }
}

/// Returns the cgroup of this process, or its nearest ancestor, that has reached its limit of
/// processes; empty if none has.
std::string full_cgroup() {
  std::error_code error;
  for (const auto& cgroup : own_cgroups("/", "pids")) {
    for (auto folder = cgroup.folder; fs::exists(folder / "cgroup.procs", error);
         folder = folder.parent_path()) {
      std::int64_t current = 0, most = 0;
      std::ifstream(folder / "pids.current") >> current;
      // "max" (no limit) is not a number.
      if (std::ifstream(folder / "pids.max") >> most && current >= most)
        return "pids limit of cgroup " + folder.string() + ": " + std::to_string(most);
    }
  }
  return "";
}

/// Describes the limit of processes that may have been reached if no cgroup is full.
std::string process_limit() {
  rlimit limit{};
  ::getrlimit(RLIMIT_NPROC, &limit);
  return limit.rlim_cur == RLIM_INFINITY ? "see sysctl kernel.threads-max and kernel.pid_max"
                                         : "ulimit -u is " + std::to_string(limit.rlim_cur);
}

/// Returns "; NAME is N bytes", or an empty text if the resource is not limited.
std::string bytes_limit(const std::string& name, int resource) {
  rlimit limit{};
  ::getrlimit(resource, &limit);
  if (limit.rlim_cur == RLIM_INFINITY) return "";
  return "; " + name + " is " + std::to_string(limit.rlim_cur) + " bytes";
}

std::string memory_limits() {
  return bytes_limit("RLIMIT_AS", RLIMIT_AS) + bytes_limit("RLIMIT_DATA", RLIMIT_DATA);
}

std::string open_files_limit() {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  return "ulimit -n is " + std::to_string(limit.rlim_cur) + "; each worker needs six";
}

/// Describes a failed fork or thread creation: the error and the limit that was reached.
std::string explain_shortage(const StartFailure& failure) {
  const std::string error =
      std::string(to_string(failure.step)) + ": " + std::strerror(failure.error_number);
  if (failure.error_number == EAGAIN) {
    const auto cgroup = full_cgroup();
    if (!cgroup.empty()) return error + " (" + cgroup + ")";
    // A thread also needs memory for its stack.
    const bool is_thread = failure.step == StartStep::thread;
    return error + " (" + process_limit() + (is_thread ? memory_limits() : "") + ")";
  }
  if (failure.error_number == ENOMEM)
    return error + " (see the free memory and memory.max of the cgroup" + memory_limits() + ")";
  if (failure.error_number == EMFILE) return error + " (" + open_files_limit() + ")";
  if (failure.error_number == ENFILE) return error + " (see sysctl fs.file-max)";
  // The C library falls back to clone only after ENOSYS.
  if (failure.error_number == EPERM && failure.step == StartStep::thread)
    return error + " (a seccomp profile must allow clone3 or refuse it with ENOSYS)";
  return error;
}

}  // namespace

Problem problem_of_format(const fs::path& program) {
  std::error_code error;
  const bool is_readable = ::access(program.c_str(), R_OK) == 0;
  if (!is_readable || !fs::is_regular_file(program, error)) return std::nullopt;
  const auto head = head_of(program);
  const auto interpreter = interpreter_of(head);
  const bool is_elf = head.starts_with(ELFMAG) && head.size() >= sizeof(Elf32_Ehdr);
  if (!interpreter && !is_elf && !has_other_format(program, head)) return explain_format(program);
  // For an empty name, the kernel reports an unknown file format.
  if (!interpreter || interpreter->empty() || fs::exists(*interpreter, error) || error) {
    return std::nullopt;
  }
  return interpreter_problem(interpreter);
}

std::string describe_start_failure(const StartFailure& failure, const std::string& program,
                                   const std::string& folder) {
  const std::string subject = "cannot start " + program + ": ";
  switch (failure.step) {
    case StartStep::exec:
      return subject + explain_exec(failure, program, folder);
    case StartStep::fork:
      return subject + explain_shortage(failure);
    case StartStep::thread:
      return "cannot watch the workers: " + explain_shortage(failure);
    case StartStep::folder:
      return subject + "cannot enter the folder " + folder + ": " +
             std::strerror(failure.error_number);
    case StartStep::affinity:
      return subject + "none of its CPUs may be used: " + std::strerror(failure.error_number) +
             " (is the cpuset smaller than the binding?)";
    default:
      return subject + to_string(failure.step) + ": " + std::strerror(failure.error_number);
  }
}

}  // namespace ddprun
