#include "launcher/process/kernel_wait.hpp"

#include "launcher/plan/cgroup_folder.hpp"
#include "launcher/process/proc_scan.hpp"
#include "rendezvous/base/processor.hpp"
#include "rendezvous/base/text.hpp"

#include <array>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <sstream>
#include <sys/syscall.h>

namespace ddprun {

namespace {

namespace fs = std::filesystem;

struct NamedCall {
  long number;
  const char* name;
  bool has_descriptor;  ///< as its first argument
  WaitCause cause = WaitCause::other;
};

/// Returns the number of a system call that x86-64 has and newer processors lack; there -1.
constexpr long old_call(long number) {
  return kProcessor == Processor::x86_64 ? number : -1;
}

// System calls that can wait. Others are shown by number.
constexpr std::array kCalls{
    NamedCall{SYS_read, "read", true},
    NamedCall{SYS_write, "write", true},
    NamedCall{SYS_pread64, "pread64", true},
    NamedCall{SYS_pwrite64, "pwrite64", true},
    NamedCall{SYS_readv, "readv", true},
    NamedCall{SYS_writev, "writev", true},
    NamedCall{SYS_fsync, "fsync", true},
    NamedCall{SYS_fdatasync, "fdatasync", true},
    NamedCall{SYS_close, "close", true},
    NamedCall{SYS_ioctl, "ioctl", true},
    NamedCall{SYS_ftruncate, "ftruncate", true},
    NamedCall{SYS_getdents64, "getdents64", true},
    NamedCall{SYS_openat, "openat", false},
    NamedCall{SYS_newfstatat, "newfstatat", false},
    NamedCall{SYS_statx, "statx", false},
    NamedCall{SYS_unlinkat, "unlinkat", false},
    NamedCall{SYS_execve, "execve", false},
    NamedCall{SYS_mmap, "mmap", false},
    NamedCall{SYS_munmap, "munmap", false},
    NamedCall{SYS_msync, "msync", false},
    NamedCall{SYS_sync, "sync", false},
    NamedCall{SYS_flock, "flock", true},
    NamedCall{SYS_fcntl, "fcntl", true},
    NamedCall{SYS_nanosleep, "nanosleep", false},
    NamedCall{SYS_clock_nanosleep, "clock_nanosleep", false},
    NamedCall{SYS_rt_sigsuspend, "rt_sigsuspend", false},
    NamedCall{SYS_futex, "futex", false, WaitCause::lock},
    NamedCall{SYS_ppoll, "ppoll", false, WaitCause::peer},
    NamedCall{SYS_pselect6, "pselect6", false, WaitCause::peer},
    NamedCall{SYS_epoll_pwait, "epoll_pwait", false, WaitCause::peer},
    NamedCall{SYS_recvfrom, "recvfrom", true, WaitCause::peer},
    NamedCall{SYS_recvmsg, "recvmsg", true, WaitCause::peer},
    NamedCall{SYS_sendto, "sendto", true, WaitCause::peer},
    NamedCall{SYS_sendmsg, "sendmsg", true, WaitCause::peer},
    NamedCall{SYS_connect, "connect", true, WaitCause::peer},
    NamedCall{SYS_accept, "accept", true, WaitCause::peer},
    NamedCall{SYS_accept4, "accept4", true, WaitCause::peer},
    NamedCall{SYS_epoll_pwait2, "epoll_pwait2", false, WaitCause::peer},
    NamedCall{SYS_rt_sigtimedwait, "rt_sigtimedwait", false, WaitCause::peer},
    NamedCall{SYS_restart_syscall, "restart_syscall", false, WaitCause::unknown},
    NamedCall{SYS_wait4, "wait4", false, WaitCause::peer},
    NamedCall{SYS_waitid, "waitid", false, WaitCause::peer},
    NamedCall{old_call(7), "poll", false, WaitCause::peer},
    NamedCall{old_call(23), "select", false, WaitCause::peer},
    NamedCall{old_call(232), "epoll_wait", false, WaitCause::peer},
    NamedCall{old_call(34), "pause", false},
    NamedCall{SYS_exit, "exit", false},
    NamedCall{SYS_exit_group, "exit_group", false}};

bool parse_number(std::string_view text, long& number) {
  const int base = text.starts_with("0x") ? 16 : 10;
  if (base == 16) text.remove_prefix(2);
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number, base);
  return parsed.ec == std::errc() && parsed.ptr == text.data() + text.size();
}

void add_system_call(KernelWait& wait, const fs::path& thread) {
  const auto call = parse_system_call(read_text(thread / "syscall"));
  if (!call) return;
  wait.system_call = "system call " + std::to_string(call->number);
  for (const auto& known : kCalls) {
    if (known.number != call->number) continue;
    wait.system_call = known.name;
    wait.cause = known.cause;
    if (!known.has_descriptor) return;
    std::error_code ignored;
    wait.file = fs::read_symlink(thread / "fd" / std::to_string(call->first_argument), ignored);
    const bool is_of_peer = wait.file.starts_with("socket:") || wait.file.starts_with("pipe:") ||
                            wait.file.starts_with("anon_inode:");
    if (is_of_peer) wait.cause = WaitCause::peer;
  }
}

fs::path path_of(pid_t pid, pid_t thread) {
  return fs::path("/proc") / std::to_string(pid) / "task" / std::to_string(thread);
}

void add_details(KernelWait& wait, const fs::path& thread) {
  add_system_call(wait, thread);
  const auto function = read_text(thread / "wchan");
  if (function != "0") wait.function = function;
  wait.stack = parse_kernel_stack(read_text(thread / "stack"));
}

/// The state is '\0' if there is no such thread.
ProcessState state_of(pid_t pid, pid_t thread) {
  return parse_process_state(read_text(path_of(pid, thread) / "stat"));
}

}  // namespace

std::optional<SystemCall> parse_system_call(std::string_view text) {
  std::istringstream words{std::string(text)};
  std::string number, argument;
  SystemCall call;
  if (!(words >> number >> argument) || !parse_number(number, call.number)) return std::nullopt;
  // For system call -1 the argument is a stack pointer. For others the highest bit may be set.
  if (call.number < 0) return std::nullopt;
  if (!parse_number(argument, call.first_argument)) call.first_argument = -1;
  return call;
}

std::vector<std::string> parse_kernel_stack(std::string_view text) {
  std::vector<std::string> functions;
  for (const auto& line : split(text, '\n')) {
    // "[<0>] request_wait_answer+0x1a/0x220 [fuse]"
    const auto begin = line.find("] ");
    if (begin == std::string::npos || functions.size() == kStackFunctionsMax) continue;
    const auto name = line.substr(begin + 2, line.find_first_of("+ ", begin + 2) - begin - 2);
    if (!name.empty()) functions.push_back(name);
  }
  return functions;
}

KernelWait kernel_wait(pid_t pid) {
  pid_t shown = -1;
  KernelWait wait;
  for (const pid_t thread : thread_ids(pid)) {
    const auto state = state_of(pid, thread);
    const bool has_ended = state.letter == '\0' || state.letter == 'Z' || state.letter == 'X';
    if (has_ended || (shown >= 0 && state.letter != 'D')) continue;
    shown = thread;
    wait.state = state.letter;
    wait.is_exiting = state.is_exiting();
    if (state.letter == 'D') break;
  }
  if (shown >= 0) add_details(wait, path_of(pid, shown));
  return wait;
}

bool is_uninterruptible(pid_t pid) {
  const auto threads = thread_ids(pid);
  return std::any_of(threads.begin(), threads.end(), [pid](pid_t thread) {
    const auto state = state_of(pid, thread);
    return state.letter == 'D' && !state.is_exiting();
  });
}

KernelWait main_thread_wait(pid_t pid) {
  KernelWait wait;
  wait.state = state_of(pid, pid).letter;
  if (wait.state != '\0') add_details(wait, path_of(pid, pid));
  return wait;
}

std::string describe(const KernelWait& wait) {
  if (wait.state == '\0') return "just ended";
  std::string text = std::string("state ") + wait.state;
  if (wait.state == 'D') text += " (uninterruptible sleep)";
  if (!wait.system_call.empty()) text += " in " + wait.system_call;
  if (!wait.file.empty()) text += " of " + wait.file;
  if (!wait.function.empty()) text += ", waiting in " + wait.function;
  if (!wait.stack.empty()) text += ", kernel stack: " + join(wait.stack, " < ");
  return text;
}

std::string after_sigkill(std::chrono::duration<double> time) {
  std::array<char, 40> text{};
  std::snprintf(text.data(), text.size(), time.count() < 10 ? "%.1f s" : "%.0f s", time.count());
  return text.data() + std::string(" after SIGKILL");
}

std::string process_and_name(pid_t pid) {
  const auto name = thread_name(pid, pid);
  return "process " + std::to_string(pid) + (name.empty() ? "" : " (" + name + ")");
}

}  // namespace ddprun
