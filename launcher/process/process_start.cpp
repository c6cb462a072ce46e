#include "launcher/process/process_start.hpp"

#include "launcher/process/start_steps.hpp"
#include <ddprun/error.hpp>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <linux/sched.h>
#include <utility>

namespace ddprun {

namespace {

// Offset to the agent's oom_score_adj, in thousandths of the memory: workers are killed before the
// agent.
constexpr int kOomScoreAboveAgent = 100;

std::vector<const char*> pointers_to(const std::vector<std::string>& strings) {
  std::vector<const char*> pointers;
  pointers.reserve(strings.size() + 1);
  for (const auto& string : strings) pointers.push_back(string.c_str());
  pointers.push_back(nullptr);
  return pointers;
}

/// Bit mask of CPUs or nodes in the kernel's format.
std::vector<unsigned long> mask_of(const std::vector<int>& bits) {
  constexpr int kBits = 8 * sizeof(unsigned long);
  std::vector<unsigned long> mask;
  for (const int bit : bits) {
    const auto word = static_cast<std::size_t>(bit / kBits);
    if (mask.size() <= word) mask.resize(word + 1);
    mask[word] |= 1UL << (bit % kBits);
  }
  return mask;
}

/// oom_score_adj of this process, opened before its memory became private; -1: not private.
UniqueFd& held_oom_score() {
  static UniqueFd file;
  return file;
}

struct OomScores {
  std::string own, of_child;
};

OomScores oom_scores(bool outlives_agent) {
  int own = 0;
  std::ifstream("/proc/self/oom_score_adj") >> own;
  const int raised = std::min(own + kOomScoreAboveAgent, 1000);
  return {.own = std::to_string(own), .of_child = std::to_string(outlives_agent ? own : raised)};
}

/// Sets the OOM score of this process to its child's for the lifetime of this object, if memory is
/// private: the kernel then does not let the child write it before exec, but the child inherits it.
class ChildOomScore {
 public:
  explicit ChildOomScore(const OomScores& scores) : own_(scores.own) { write(scores.of_child); }
  ChildOomScore(const ChildOomScore&) = delete;
  ChildOomScore& operator=(const ChildOomScore&) = delete;
  ~ChildOomScore() { write(own_); }

 private:
  static void write(const std::string& score) {
    const int file = held_oom_score().get();
    // Errors are ignored, as in the child.
    if (file >= 0 && ::pwrite(file, score.data(), score.size(), 0) < 0) return;
  }

  const std::string& own_;
};

int highest_descriptor() {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  return static_cast<int>(std::min<rlim_t>(limit.rlim_cur, 1 << 20));
}

rlimit worker_limit(std::uint64_t open_files_max) {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  if (open_files_max > 0) limit.rlim_cur = std::min<rlim_t>(open_files_max, limit.rlim_max);
  return limit;
}

/// Returns both limits, reduced to `most`; 0: unchanged.
rlimit lowered(__rlimit_resource resource, std::uint64_t most) {
  rlimit limit{};
  ::getrlimit(resource, &limit);
  if (most == 0) return limit;
  limit.rlim_max = std::min<rlim_t>(most, limit.rlim_max);
  limit.rlim_cur = std::min(limit.rlim_cur, limit.rlim_max);
  return limit;
}

/// A launcher in the style of Boost.Process v2: called with a program, its arguments and
/// initialisers. Boost's own launchers are unsuitable: they notify Asio of the fork in the child,
/// which damages the parent's reactor with vfork; they call exit() if exec fails; they leak
/// descriptors between two that are kept; and they support neither pidfd nor cgroup.
struct PidfdLauncher {
  const char* const* environment = nullptr;
  int cgroup_fd = -1;
  bool may_use_clone3 = true;
  bool starts_outside = false;  ///< outside the cgroup

  template <typename... Initialisers>
  std::variant<ForkedProcess, StartFailure> operator()(const char* program,
                                                       const char* const* arguments,
                                                       const Initialisers&... initialisers) {
    std::array<int, 2> pipe{};
    if (::pipe2(pipe.data(), O_CLOEXEC) != 0) return failed(errno);
    UniqueFd status(pipe[0]), status_writer(pipe[1]);
    // The agent's handlers must not run in the child.
    sigset_t all, before;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before);
    int pidfd = -1;
    const pid_t pid = fork_with_pidfd(pidfd);
    if (pid == 0) run_child(status_writer.get(), program, arguments, initialisers...);
    const int error_number = errno;
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    if (pid < 0) return failed(error_number);
    return ForkedProcess{.pid = pid, .pidfd = UniqueFd(pidfd), .status = std::move(status)};
  }

 private:
  static StartFailure failed(int error_number) {
    return {.step = StartStep::fork, .error_number = error_number};
  }

  /// Copies the process rather than sharing its memory until exec: with an agent of a few MiB the
  /// copy costs some 0.1 ms, and the child cannot damage the parent.
  pid_t fork_with_pidfd(int& pidfd) {
    clone_args arguments{};
    arguments.flags = CLONE_PIDFD;
    arguments.pidfd = reinterpret_cast<std::uintptr_t>(&pidfd);
    arguments.exit_signal = SIGCHLD;
    if (cgroup_fd >= 0) {
      arguments.flags |= CLONE_INTO_CGROUP;
      arguments.cgroup = static_cast<std::uint64_t>(cgroup_fd);
    }
    long child = -1;
    errno = ENOSYS;
    if (may_use_clone3) child = ::syscall(SYS_clone3, &arguments, sizeof(arguments));
    // Some sandboxes return EPERM for unknown system calls.
    if (child < 0 && (errno == ENOSYS || errno == EPERM)) {
      child = ::syscall(SYS_clone, SIGCHLD | CLONE_PIDFD, nullptr, &pidfd, nullptr, nullptr);
      starts_outside = true;
    }
    return static_cast<pid_t>(child);
  }

  template <typename... Initialisers>
  [[noreturn]] void run_child(int status_fd, const char* program, const char* const* arguments,
                              const Initialisers&... initialisers) {
    StatusRecord record{};
    auto succeeds = [&](const auto& initialiser) {
      const auto error = initialiser.on_exec_setup(*this, program, arguments);
      record = {.step = initialiser.kStep, .error_number = error.value()};
      return error.value() == 0;
    };
    if ((succeeds(initialisers) && ...)) {
      const std::uint64_t empty_mask = 0;
      ::syscall(SYS_rt_sigprocmask, SIG_SETMASK, &empty_mask, nullptr, sizeof(empty_mask));
      ::syscall(SYS_execve, program, arguments, environment);
      record = {.step = StartStep::exec, .error_number = errno};
    }
    ::syscall(SYS_write, status_fd, &record, sizeof(record));
    while (true) ::syscall(SYS_exit_group, 127);
  }
};

/// Enters the cgroup if the kernel has not done so.
struct EnterCgroupIfOutside {
  static constexpr StartStep kStep = StartStep::cgroup;

  template <typename Path>
  boost::system::error_code on_exec_setup(PidfdLauncher& launcher, const Path& program,
                                          const char* const* arguments) const {
    const start_steps::EnterCgroup enter{launcher.starts_outside ? launcher.cgroup_fd : -1};
    return enter.on_exec_setup(launcher, program, arguments);
  }
};

}  // namespace

const char* to_string(StartStep step) noexcept {
  switch (step) {
    case StartStep::files:
      return "files";
    case StartStep::fork:
      return "fork";
    case StartStep::parent_death:
      return "parent-death signal";
    case StartStep::session:
      return "setsid";
    case StartStep::signals:
      return "signals";
    case StartStep::cgroup:
      return "cgroup";
    case StartStep::affinity:
      return "affinity";
    case StartStep::standard_streams:
      return "standard streams";
    case StartStep::descriptors:
      return "descriptors";
    case StartStep::limits:
      return "limits";
    case StartStep::folder:
      return "chdir";
    case StartStep::user:
      return "user";
    case StartStep::exec:
      return "exec";
    case StartStep::thread:
      return "thread";
  }
  return "unknown";
}

void make_memory_private() {
  UniqueFd score(::open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC));
  if (::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0) {
    throw_system_error("prctl(PR_SET_DUMPABLE), which hides the run's secret", errno);
  }
  // A second call cannot open the file and keeps the first descriptor.
  if (score.get() >= 0) held_oom_score() = std::move(score);
}

std::variant<ForkedProcess, StartFailure> fork_process(const ProcessRequest& request) {
  const auto arguments = pointers_to(request.arguments);
  const auto environment = pointers_to(request.environment);
  const auto cpu_mask = mask_of(request.cpus);
  const auto node_mask = request.memory_node < 0 ? mask_of({}) : mask_of({request.memory_node});
  const auto scores = oom_scores(request.outlives_agent);
  const UniqueFd null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const int input = request.standard_input < 0 ? null.get() : request.standard_input;
  const char* program = request.program.empty() ? arguments[0] : request.program.c_str();

  const ChildOomScore child_score(scores);
  PidfdLauncher launcher;
  launcher.environment = environment.data();
  launcher.cgroup_fd = request.cgroup_fd;
  launcher.may_use_clone3 = request.may_use_clone3;
  namespace steps = start_steps;
  const steps::DieWithParent die_with_parent{request.outlives_agent ? 0 : ::getpid()};
  return launcher(program, arguments.data(), die_with_parent, steps::LetAgentTrace{::getpid()},
                  steps::OwnSession{}, steps::DiscardGroupSignals{::getpid()},
                  steps::Signals{.are_ignored = request.outlives_agent}, EnterCgroupIfOutside{},
                  steps::Placement{cpu_mask, node_mask, scores.of_child},
                  steps::StandardStreams{input, request.standard_output, request.standard_error},
                  steps::OtherDescriptors{request.kept_descriptor, highest_descriptor()},
                  steps::Limit{RLIMIT_NOFILE, worker_limit(request.open_files_max)},
                  steps::Limit{RLIMIT_DATA, lowered(RLIMIT_DATA, request.data_bytes_max)},
                  steps::Limit{RLIMIT_CPU, lowered(RLIMIT_CPU, request.cpu_seconds_max)},
                  steps::Folder{request.folder}, steps::User{request.user, die_with_parent});
}

}  // namespace ddprun
