// Steps of the child between fork and exec, as initialisers in the style of Boost.Process v2: the
// launcher calls on_exec_setup() of each in the child, and reports its kStep on failure. Only raw
// system calls: the child is a copy of a multi-threaded process, so any lock of the C library may
// be held for ever. For process_start.cpp only.
#pragma once

#include "launcher/process/process_start.hpp"

#include <boost/system/error_code.hpp>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <ctime>
#include <fcntl.h>
#include <linux/close_range.h>
#include <linux/mempolicy.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace ddprun::start_steps {

using boost::system::error_code;

inline error_code last_error() {
  return {errno, boost::system::system_category()};
}

/// Requests that the kernel kill the child when the thread that forked it ends.
struct DieWithParent {
  static constexpr StartStep kStep = StartStep::parent_death;
  pid_t parent;  ///< 0: the child outlives it

  template <typename Launcher, typename Path>
  error_code on_exec_setup(Launcher&, const Path&, const char* const*) const {
    if (parent == 0) return {};
    if (::syscall(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0) return last_error();
    // The parent may have ended before the request.
    if (::syscall(SYS_getppid) != parent) ::syscall(SYS_exit_group, 127);
    return {};
  }
};

/// Permits debuggers of the agent to attach if the kernel allows tracing by ancestors only (Yama).
/// Kernels without Yama reject the request.
struct LetAgentTrace {
  static constexpr StartStep kStep = StartStep::parent_death;  // never fails
  pid_t agent;

  template <typename Launcher, typename Path>
  error_code on_exec_setup(Launcher&, const Path&, const char* const*) const {
    ::syscall(SYS_prctl, PR_SET_PTRACER, static_cast<unsigned long>(agent), 0, 0, 0);
    return {};
  }
};

struct OwnSession {
  static constexpr StartStep kStep = StartStep::session;

  template <typename Launcher, typename Path>
  error_code on_exec_setup(Launcher&, const Path&, const char* const*) const {
    return ::syscall(SYS_setsid) < 0 ? last_error() : error_code{};
  }
};

/// Discards signals to the parent's process group, such as by Ctrl-C in a terminal, from the time
/// before the child had its own session. Signals that the parent sends to the child stay pending.
struct DiscardGroupSignals {
  static constexpr StartStep kStep = StartStep::session;
  pid_t parent;

  template <typename Launcher, typename Path>
  error_code on_exec_setup(Launcher&, const Path&, const char* const*) const {
    const std::uint64_t all = ~std::uint64_t{0};
    const timespec no_time{};
    std::uint64_t kept = 0;
    siginfo_t info{};
    while (true) {
      const long signal = ::syscall(SYS_rt_sigtimedwait, &all, &info, &no_time, sizeof(all));
      if (signal <= 0) break;
      if (info.si_pid == parent) kept |= std::uint64_t{1} << (signal - 1);
    }
    for (int signal = 1; signal <= 64; ++signal) {
      const bool is_kept = (kept >> (signal - 1) & 1) != 0;
      if (is_kept) ::syscall(SYS_kill, ::syscall(SYS_getpid), signal);
    }
    return {};
  }
};

/// Resets all signals to their default actions, or ignores all. The launcher empties the mask last.
struct Signals {
  static constexpr StartStep kStep = StartStep::signals;
  bool are_ignored;

  template <typename Launcher, typename Path>
  error_code on_exec_setup(Launcher&, const Path&, const char* const*) const {
    // The kernel's sigaction with the handler first: 0 is SIG_DFL, 1 is SIG_IGN. No flags. Fails
    // for SIGKILL and SIGSTOP.
    const std::array<unsigned long, 8> action{are_ignored ? 1UL : 0UL};
    for (int signal = 1; signal <= 64; ++signal) {
      ::syscall(SYS_rt_sigaction, signal, action.data(), nullptr, 8);
    }
    return {};
  }
};

/// For kernels without clone3; otherwise the child starts in the cgroup.
struct EnterCgroup {
  static constexpr StartStep kStep = StartStep::cgroup;
  int cgroup_fd;  ///< -1: disabled

  template <typename Launcher, typename Path>
  error_code on_exec_setup(Launcher&, const Path&, const char* const*) const {
    if (cgroup_fd < 0) return {};
    const long fd = ::syscall(SYS_openat, cgroup_fd, "cgroup.procs", O_WRONLY | O_CLOEXEC, 0);
    if (fd < 0 || ::syscall(SYS_write, fd, "0", 1) != 1) return last_error();
    return {};
  }
};

/// Sets CPUs and memory node, and an OOM score above the agent's.
struct Placement {
  static constexpr StartStep kStep = StartStep::affinity;
  const std::vector<unsigned long>& cpu_mask;   ///< empty: unchanged
  const std::vector<unsigned long>& node_mask;  ///< of memory; empty: unchanged
  const std::string& oom_score;

  template <typename Launcher, typename Path>
  error_code on_exec_setup(Launcher&, const Path&, const char* const*) const {
    const long fd =
        ::syscall(SYS_openat, AT_FDCWD, "/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC, 0);
    // Errors are ignored: some sandboxes lack the file, and root owns it if the memory is private.
    // The score is then inherited.
    if (fd >= 0) ::syscall(SYS_write, fd, oom_score.data(), oom_score.size());
    if (!node_mask.empty()) {
      // Some containers forbid it. Memory then comes from the node of the CPU that first accesses
      // it, which differs only for threads that leave the worker's CPUs.
      constexpr auto kBits = 8 * sizeof(node_mask[0]);
      ::syscall(SYS_set_mempolicy, MPOL_PREFERRED, node_mask.data(), node_mask.size() * kBits + 1);
    }
    if (cpu_mask.empty()) return {};
    const long result =
        ::syscall(SYS_sched_setaffinity, 0, cpu_mask.size() * sizeof(cpu_mask[0]), cpu_mask.data());
    return result < 0 ? last_error() : error_code{};
  }
};

struct StandardStreams {
  static constexpr StartStep kStep = StartStep::standard_streams;
  int input, output, error;  ///< above 2, so that none is overwritten before use

  template <typename Launcher, typename Path>
  error_code on_exec_setup(Launcher&, const Path&, const char* const*) const {
    const std::array<int, 3> sources{input, output, error};
    for (int target = 0; target < 3; ++target) {
      if (::syscall(SYS_dup3, sources[static_cast<unsigned>(target)], target, 0) < 0)
        return last_error();
    }
    return {};
  }
};

/// Marks all descriptors above 2 but one as close-on-exec, rather than closing them, so that the
/// status pipe stays open until exec.
struct OtherDescriptors {
  static constexpr StartStep kStep = StartStep::descriptors;
  int kept;          ///< -1: none
  int highest_open;  ///< used before kernel 5.11

  template <typename Launcher, typename Path>
  error_code on_exec_setup(Launcher&, const Path&, const char* const*) const {
    if (::syscall(SYS_close_range, 3U, ~0U, CLOSE_RANGE_CLOEXEC) != 0) {
      for (int fd = 3; fd <= highest_open; ++fd) ::syscall(SYS_fcntl, fd, F_SETFD, FD_CLOEXEC);
    }
    if (kept >= 0 && ::syscall(SYS_fcntl, kept, F_SETFD, 0) < 0) return last_error();
    return {};
  }
};

/// Sets a resource limit. For open files, programs that use select() rely on the usual low limit.
struct Limit {
  static constexpr StartStep kStep = StartStep::limits;
  __rlimit_resource resource;
  rlimit limit;

  template <typename Launcher, typename Path>
  error_code on_exec_setup(Launcher&, const Path&, const char* const*) const {
    const long result = ::syscall(SYS_prlimit64, 0, resource, &limit, nullptr);
    return result < 0 ? last_error() : error_code{};
  }
};

struct Folder {
  static constexpr StartStep kStep = StartStep::folder;
  const std::string& path;  ///< empty: unchanged

  template <typename Launcher, typename Path>
  error_code on_exec_setup(Launcher&, const Path&, const char* const*) const {
    if (path.empty() || ::syscall(SYS_chdir, path.c_str()) == 0) return {};
    return last_error();
  }
};

/// Comes after all steps that need the privileges of the former user. The kernel then clears the
/// parent-death signal.
struct User {
  static constexpr StartStep kStep = StartStep::user;
  std::optional<UserIds> ids;  ///< empty: unchanged
  DieWithParent die_with_parent;

  template <typename Launcher, typename Path>
  error_code on_exec_setup(Launcher& launcher, const Path& program,
                           const char* const* arguments) const {
    if (!ids) return {};
    const auto [user, group] = *ids;
    if (::syscall(SYS_setgroups, 0, nullptr) < 0 ||
        ::syscall(SYS_setresgid, group, group, group) < 0 ||
        ::syscall(SYS_setresuid, user, user, user) < 0) {
      return last_error();
    }
    return die_with_parent.on_exec_setup(launcher, program, arguments);
  }
};

}  // namespace ddprun::start_steps
