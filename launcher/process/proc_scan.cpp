#include "launcher/process/proc_scan.hpp"

#include "rendezvous/base/unique_fd.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <unistd.h>

namespace ddprun {

namespace {

namespace fs = std::filesystem;

// From the kernel's sched.h; stable since 2.4 and 2.6.
constexpr unsigned long kExitingFlag = 0x4;            // PF_EXITING
constexpr unsigned long kKernelThreadFlag = 0x200000;  // PF_KTHREAD
// See proc(5): flags are the 9th field, the addresses of code begin with the 26th, those of the
// environment are the 50th and 51st.
constexpr int kFieldsFromFlagsToCode = 16;
constexpr int kFieldsFromCodeToEnvironment = 23;
// Far above what execve accepts by default (a quarter of an 8 MiB stack); bounds a sweep's memory.
constexpr std::size_t kEnvironmentBytesMax = 8U << 20;

// A single read sees the environment of one program; the process may exec between two reads.
constexpr std::size_t kPartBytes = 1U << 15;

UniqueFd open_to_read(const std::string& path) {
  return UniqueFd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
}

/// Returns the readable content; empty if the process has ended, also in between (ESRCH).
std::string read_bounded(int fd, std::size_t bytes_max) {
  std::string text;
  std::array<char, kPartBytes> part{};
  while (text.size() < bytes_max) {
    const ssize_t count = ::read(fd, part.data(), std::min(part.size(), bytes_max - text.size()));
    if (count <= 0) break;
    text.append(part.data(), static_cast<std::size_t>(count));
  }
  return text;
}

std::string read_bounded(const std::string& path, std::size_t bytes_max) {
  return read_bounded(open_to_read(path).get(), bytes_max);
}

std::string proc_path(pid_t pid, const std::string& file) {
  return "/proc/" + std::to_string(pid) + "/" + file;
}

/// Path of a file of the process' thread `thread`.
std::string task_path(pid_t pid, pid_t thread, const char* file) {
  return proc_path(pid, "task/" + std::to_string(thread) + "/" + file);
}

fs::path executable_of(pid_t pid) {
  std::error_code error;
  return fs::read_symlink(proc_path(pid, "exe"), error);
}

/// Returns 0 if the thread has ended.
ThreadTime thread_time(pid_t pid, pid_t thread) {
  // "TIME_ON_CPU TIME_WAITED TIMESLICES", in nanoseconds
  const auto text = read_bounded(task_path(pid, thread, "schedstat"), 256);
  std::int64_t run = 0, queued = 0;
  const char* const end = text.data() + text.size();
  const auto first = std::from_chars(text.data(), end, run);
  if (first.ptr != end) std::from_chars(first.ptr + 1, end, queued);
  return {std::chrono::nanoseconds(run), std::chrono::nanoseconds(queued)};
}

void add_children(pid_t pid, pid_t thread, std::vector<pid_t>& pids) {
  std::ifstream list(task_path(pid, thread, "children"));
  for (pid_t child = 0; list >> child;) pids.push_back(child);
}

/// Returns true if the signal mask `field` in the text of /proc/PID/status contains the signal.
bool has_signal(std::string_view status_text, std::string_view field, int signal) {
  const auto name = "\n" + std::string(field) + ":\t";
  const auto begin = status_text.find(name);
  if (begin == std::string_view::npos) return false;
  const auto digits = status_text.substr(begin + name.size());
  std::uint64_t mask = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), mask, 16);
  return (mask >> (signal - 1) & 1) != 0;
}

/// Returns the first three IDs of the line "FIELD:\tREAL\tEFFECTIVE\tSAVED\tFILE SYSTEM" in the
/// text of /proc/PID/status; nullopt if there are fewer.
std::optional<std::array<unsigned, 3>> ids_in(std::string_view status_text,
                                              std::string_view field) {
  const auto name = "\n" + std::string(field) + ":";
  const auto begin = status_text.find(name);
  if (begin == std::string_view::npos) return std::nullopt;
  std::array<unsigned, 3> ids{};
  std::istringstream fields{std::string(status_text.substr(begin + name.size(), 64))};
  for (unsigned& id : ids) fields >> id;
  return fields ? std::optional(ids) : std::nullopt;
}

std::string status_text_of(pid_t pid) {
  return read_bounded(proc_path(pid, "status"), 16384);
}

}  // namespace

bool ProcessState::is_exiting() const {
  return letter == '\0' || letter == 'Z' || letter == 'X' || (flags & kExitingFlag) != 0;
}

bool ProcessState::is_kernel_thread() const {
  return (flags & kKernelThreadFlag) != 0;
}

ProcessState parse_process_state(std::string_view stat_text) {
  // pid (name) state ppid pgrp session tty tpgid flags …; the name may contain any byte but NUL.
  const auto name_end = stat_text.rfind(')');
  if (name_end == std::string_view::npos) return {};
  std::istringstream fields{std::string(stat_text.substr(name_end + 1))};
  ProcessState state;
  long ignored = 0;
  fields >> state.letter >> ignored >> ignored >> ignored >> ignored >> ignored >> state.flags;
  if (!fields) return {};
  const auto skip = [&fields](int count) {
    std::string skipped;
    for (int i = 0; i < count; ++i) fields >> skipped;
  };
  skip(kFieldsFromFlagsToCode);
  std::size_t code = 0;
  std::size_t begin = 0;
  std::size_t end = 0;
  fields >> code;
  skip(kFieldsFromCodeToEnvironment);
  // The kernel sets the address of the code last, and shows 1 without permission.
  if (fields >> begin >> end && code > 1) state.environment_bytes = end - begin;
  int status = 0;
  if (state.is_exiting() && fields >> status) state.exit_status = status;
  return state;
}

ProcessState process_state(pid_t pid) {
  return parse_process_state(read_bounded(proc_path(pid, "stat"), 4096));
}

bool is_zombie(pid_t pid) {
  return process_state(pid).letter == 'Z' && thread_ids(pid).size() <= 1;
}

bool status_ignores(std::string_view status_text, int signal) {
  return has_signal(status_text, "SigIgn", signal);
}

bool ignores(pid_t pid, int signal) {
  return status_ignores(status_text_of(pid), signal);
}

std::optional<UserIds> user_of(std::string_view status_text) {
  const auto users = ids_in(status_text, "Uid");
  const auto groups = ids_in(status_text, "Gid");
  if (!users || !groups) return std::nullopt;
  std::size_t i = 0;
  while (i + 1 < users->size() && (*users)[i] == 0) ++i;
  return UserIds{.user = (*users)[i], .group = (*groups)[i]};
}

std::optional<UserIds> user_of(pid_t pid) {
  return user_of(status_text_of(pid));
}

std::string executable_name(pid_t pid) {
  return executable_of(pid).filename().string();
}

bool is_python(pid_t pid) {
  return executable_name(pid).starts_with("python");
}

bool is_traced(pid_t pid) {
  const auto text = status_text_of(pid);
  return text.find("\nTracerPid:\t") != std::string::npos &&
         text.find("\nTracerPid:\t0\n") == std::string::npos;
}

bool catches(pid_t pid, int signal) {
  return has_signal(status_text_of(pid), "SigCgt", signal);
}

std::vector<pid_t> thread_ids(pid_t pid) {
  std::vector<pid_t> threads;
  std::error_code error;
  for (fs::directory_iterator entry(proc_path(pid, "task"), error), end; !error && entry != end;
       entry.increment(error)) {
    threads.push_back(std::atoi(entry->path().filename().c_str()));
  }
  return threads;
}

std::optional<std::chrono::nanoseconds> run_time(pid_t pid) {
  std::chrono::nanoseconds sum{0};
  for (const pid_t thread : thread_ids(pid)) sum += thread_time(pid, thread).run;
  // Kernels without the statistics show 0.
  return sum.count() > 0 ? std::optional(sum) : std::nullopt;
}

std::optional<ThreadTime> main_thread_time(pid_t pid) {
  const auto time = thread_time(pid, pid);
  return time.run.count() > 0 ? std::optional(time) : std::nullopt;
}

std::string thread_name(pid_t pid, pid_t thread) {
  auto name = read_bounded(task_path(pid, thread, "comm"), 256);
  if (name.ends_with('\n')) name.pop_back();
  return name;
}

std::string thread_states(pid_t pid) {
  std::string text;
  for (const pid_t thread : thread_ids(pid)) {
    const auto channel = read_bounded(task_path(pid, thread, "wchan"), 256);
    text += "Thread " + std::to_string(thread) + " (" + thread_name(pid, thread) + "): state " +
            parse_process_state(read_bounded(task_path(pid, thread, "stat"), 4096)).letter;
    text += (channel.empty() || channel == "0" ? "" : ", waiting in " + channel) + "\n";
  }
  return text;
}

std::string memory_map(pid_t pid) {
  return read_bounded(proc_path(pid, "maps"), kMapsBytesMax);
}

std::optional<bool> has_in_environment(pid_t pid, std::string_view name, std::string_view value) {
  const auto file = open_to_read(proc_path(pid, "environ"));
  if (file.get() < 0) return false;
  const auto environment = read_bounded(file.get(), kEnvironmentBytesMax);
  std::string_view rest = environment;
  while (!rest.empty()) {
    const auto entry = rest.substr(0, rest.find('\0'));
    rest.remove_prefix(std::min(entry.size() + 1, rest.size()));
    if (entry.size() > name.size() && entry.substr(0, name.size()) == name &&
        entry[name.size()] == '=' && entry.find(value, name.size()) != std::string_view::npos)
      return true;
  }
  if (!environment.empty() && environment.size() < kPartBytes) return false;
  const auto state = process_state(pid);
  if (state.is_exiting() || state.is_kernel_thread()) return false;
  if (state.environment_bytes &&
      environment.size() == std::min(kEnvironmentBytesMax, *state.environment_bytes)) {
    return false;
  }
  return std::nullopt;
}

void for_each_process(const std::function<void(pid_t)>& visit) {
  std::error_code error;
  for (fs::directory_iterator entry("/proc", error), end; !error && entry != end;
       entry.increment(error)) {
    const auto file = entry->path().filename().string();
    pid_t pid = 0;
    const auto parsed = std::from_chars(file.data(), file.data() + file.size(), pid);
    if (parsed.ec == std::errc() && parsed.ptr == file.data() + file.size()) visit(pid);
  }
}

std::vector<pid_t> children_of(pid_t pid) {
  std::vector<pid_t> pids;
  for (const pid_t thread : thread_ids(pid)) add_children(pid, thread, pids);
  return pids;
}

std::vector<pid_t> children_of_main_thread(pid_t pid) {
  std::vector<pid_t> pids;
  add_children(pid, pid, pids);
  return pids;
}

std::vector<pid_t> with_descendants(pid_t pid, std::size_t count_max) {
  std::vector<pid_t> processes = {pid};
  for (std::size_t i = 0; i < processes.size(); ++i) {
    for (const pid_t child : children_of(processes[i])) {
      if (processes.size() < count_max) processes.push_back(child);
    }
  }
  return processes;
}

bool run_same_program(pid_t one, pid_t other) {
  const auto file = executable_of(one);
  return !file.empty() && file == executable_of(other);
}

pid_t program_behind(pid_t pid) {
  // Longer chains are not wrappers.
  for (int depth = 0; depth < 8 && !is_python(pid); ++depth) {
    if (thread_ids(pid).size() != 1) break;
    const auto children = children_of(pid);
    if (children.size() != 1 || is_zombie(children.front())) break;
    pid = children.front();
  }
  return pid;
}

std::vector<pid_t> children() {
  return children_of(::getpid());
}

}  // namespace ddprun
