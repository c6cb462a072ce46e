// What a child does between fork and exec, as initialisers in the mode of Boost.Process v2: each
// has a function on_exec_setup() that the launcher calls in the child, and names its step. Only raw
// system calls: the child is a copy of a process with threads, so that any lock of the C library
// may be held for ever. For process_start.cpp alone.
#pragma once

#include "launcher/process/process_start.hpp"

#include <boost/system/error_code.hpp>

#include <array>
#include <cerrno>
#include <csignal>
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

/// The kernel kills the child when the thread that forked it ends.
struct DieWithParent {
  static constexpr StartStep kStep = StartStep::parent_death;
  pid_t parent;  ///< 0: the child shall outlive it

  template <typename Launcher, typename Path>
  error_code on_exec_setup(Launcher&, const Path&, const char* const*) const {
    if (parent == 0) return {};
    if (::syscall(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0) return last_error();
    // It may have ended before the request was made.
    if (::syscall(SYS_getppid) != parent) ::syscall(SYS_exit_group, 127);
    return {};
  }
};

/// Debuggers that the agent starts may look at the child where the kernel lets processes be traced
/// by their ancestors alone (Yama). Kernels without such a rule do not know the request.
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

/// Default handlers for all signals, also those that the agent ignores; or all ignored. The mask is
/// emptied last, by the launcher.
struct Signals {
  static constexpr StartStep kStep = StartStep::signals;
  bool are_ignored;

  template <typename Launcher, typename Path>
  error_code on_exec_setup(Launcher&, const Path&, const char* const*) const {
    // The kernel's form of the action, with the handler first: 0 is SIG_DFL, 1 is SIG_IGN. No
    // flags. SIGKILL and SIGSTOP refuse.
    const std::array<unsigned long, 8> action{are_ignored ? 1UL : 0UL};
    for (int signal = 1; signal <= 64; ++signal) {
      ::syscall(SYS_rt_sigaction, signal, action.data(), nullptr, 8);
    }
    return {};
  }
};

/// For kernels without clone3; otherwise the child is born there.
struct EnterCgroup {
  static constexpr StartStep kStep = StartStep::cgroup;
  int cgroup_fd;  ///< -1: nothing to do

  template <typename Launcher, typename Path>
  error_code on_exec_setup(Launcher&, const Path&, const char* const*) const {
    if (cgroup_fd < 0) return {};
    const long fd = ::syscall(SYS_openat, cgroup_fd, "cgroup.procs", O_WRONLY | O_CLOEXEC, 0);
    if (fd < 0 || ::syscall(SYS_write, fd, "0", 1) != 1) return last_error();
    return {};
  }
};

/// Where to run, and to be the kernel's choice before the agent when memory is short.
struct Placement {
  static constexpr StartStep kStep = StartStep::affinity;
  const std::vector<unsigned long>& cpu_mask;   ///< empty: unchanged
  const std::vector<unsigned long>& node_mask;  ///< of memory; empty: unchanged
  const std::string& oom_score;

  template <typename Launcher, typename Path>
  error_code on_exec_setup(Launcher&, const Path&, const char* const*) const {
    const long fd =
        ::syscall(SYS_openat, AT_FDCWD, "/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC, 0);
    // Absent in some sandboxes: no matter. Root's if the memory is private: then it is inherited.
    if (fd >= 0) ::syscall(SYS_write, fd, oom_score.data(), oom_score.size());
    if (!node_mask.empty()) {
      // Some containers forbid it. Then memory comes from the node of whoever touches it first,
      // which differs only for what the worker moves away from its CPUs.
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
  int input, output, error;  ///< all above 2, so that none is overwritten before it is used

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

/// Exec closes all descriptors above 2 but one. Marking rather than closing keeps the status pipe
/// open until exec.
struct OtherDescriptors {
  static constexpr StartStep kStep = StartStep::descriptors;
  int kept;          ///< -1: none
  int highest_open;  ///< bound for kernels before 5.11

  template <typename Launcher, typename Path>
  error_code on_exec_setup(Launcher&, const Path&, const char* const*) const {
    if (::syscall(SYS_close_range, 3U, ~0U, CLOSE_RANGE_CLOEXEC) != 0) {
      for (int fd = 3; fd <= highest_open; ++fd) ::syscall(SYS_fcntl, fd, F_SETFD, FD_CLOEXEC);
    }
    if (kept >= 0 && ::syscall(SYS_fcntl, kept, F_SETFD, 0) < 0) return last_error();
    return {};
  }
};

/// Of open files, for example: many programs, those that use select() among them, rely on the usual
/// low limit.
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

/// After what only the former user may do. The kernel forgets the parent-death signal then.
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
