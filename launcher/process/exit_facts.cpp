#include "launcher/process/exit_facts.hpp"

#include "launcher/plan/cgroup_folder.hpp"
#include "launcher/process/core_file.hpp"
#include "launcher/process/error_file.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <fcntl.h>
#include <fstream>
#include <iterator>
#include <sstream>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>

namespace ddprun {

namespace {

namespace fs = std::filesystem;

// Maximum size of a kernel record.
constexpr std::size_t kKernelRecordBytes = 8192;

/// Returns the file with this process' counter of out-of-memory kills, or an empty path. A group's
/// counter includes its descendants.
std::string find_counter_file() {
  std::error_code error;
  for (const auto& cgroup : own_cgroups("/", "memory")) {
    for (const char* name : {"memory.events", "memory.oom_control"}) {
      const auto file = cgroup.folder / name;
      if (fs::exists(file, error)) return file.string();
    }
  }
  return "";
}

/// The log has the PIDs of the first namespace.
bool has_pids_of_kernel_log() {
  constexpr ino_t kFirstPidNamespace = 0xEFFFFFFC;
  struct stat status {};
  return ::stat("/proc/self/ns/pid", &status) == 0 && status.st_ino == kFirstPidNamespace;
}

std::string host_name() {
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  return name.data();
}

}  // namespace

std::optional<pid_t> memory_kill_in(std::string_view line) {
  constexpr std::string_view kPrefix = "Killed process ";
  const auto found = line.find(kPrefix);
  if (found == std::string_view::npos) return std::nullopt;
  const auto digits = line.substr(found + kPrefix.size());
  pid_t killed = 0;
  const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), killed);
  if (parsed.ec != std::errc()) return std::nullopt;
  return killed;
}

std::int64_t memory_kills_in(std::string_view text) {
  std::istringstream words{std::string(text)};
  std::string word;
  while (words >> word) {
    std::int64_t count = 0;
    if (word == "oom_kill" && words >> count) return count;
  }
  return 0;
}

bool OutOfMemoryKills::claim(pid_t pid) {
  // The kernel counts a kill before the signal, and may write its log after the death.
  const bool is_named = named_.erase(pid) > 0;
  if (!is_named && unclaimed_ <= std::ssize(named_)) return false;
  unclaimed_ = std::max<std::int64_t>(unclaimed_ - 1, 0);
  return true;
}

OutOfMemoryWatch::OutOfMemoryWatch()
    : kernel_log_(has_pids_of_kernel_log() ? ::open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC)
                                           : -1),
      counter_file_(find_counter_file()),
      kills_seen_(memory_kills_in(read_text(counter_file_))) {
  if (kernel_log_ >= 0) ::lseek(kernel_log_, 0, SEEK_END);
}

OutOfMemoryWatch::~OutOfMemoryWatch() {
  if (kernel_log_ >= 0) ::close(kernel_log_);
}

bool OutOfMemoryWatch::has_killed(pid_t pid) {
  std::array<char, kKernelRecordBytes> record{};
  while (kernel_log_ >= 0) {
    const ssize_t count = ::read(kernel_log_, record.data(), record.size());
    if (count < 0 && errno == EPIPE) continue;  // overwritten: read the oldest
    if (count <= 0) break;
    const std::string_view line(record.data(), static_cast<std::size_t>(count));
    if (const auto killed = memory_kill_in(line)) kills_.note_named(*killed);
  }
  const auto count = memory_kills_in(read_text(counter_file_));
  kills_.note_counted(std::max<std::int64_t>(count - std::exchange(kills_seen_, count), 0));
  return kills_.claim(pid);
}

void add_exit_facts(WorkerExited& exited, const ProcessExit& exit, const WorkerSpec& spec,
                    OutOfMemoryWatch& out_of_memory) {
  auto report = read_error_report(spec.error_file);
  exited.error_message = std::move(report.message);
  exited.error_traceback = std::move(report.traceback);
  exited.error_time = report.when;
  exited.error_code = report.code;
  if (exit.wait_error != 0 && exited.error_message.empty()) {
    exited.error_message =
        "its exit status is unknown: waitid: " + std::generic_category().message(exit.wait_error);
  }
  if (exit.signal == SIGKILL && !exited.was_stopped && exited.hung.empty())
    exited.is_out_of_memory = out_of_memory.has_killed(exited.pid);
  if (exit.has_dumped_core) {
    std::error_code error;
    exited.core_file =
        find_core_file({.pid = exited.pid,
                        .signal = exit.signal,
                        .program = spec.arguments.front(),
                        .folder = spec.folder.empty() ? fs::current_path(error) : spec.folder,
                        .host = host_name()});
  }
}

}  // namespace ddprun
