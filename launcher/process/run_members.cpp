#include "launcher/process/run_members.hpp"

#include "launcher/process/proc_scan.hpp"

#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <poll.h>
#include <set>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

namespace ddprun {

namespace {

using namespace std::chrono_literals;

// Interval after which the members are searched again although a killed process has not ended.
constexpr auto kRoundLimit = 1s;
// A process in the kernel (a driver, a network file system) stops only when it returns; Ctrl-Z must
// not wait for that.
constexpr auto kFreezeLimit = 1s;
// Maximum processes stopped outside a cgroup; above the default maximum of a system (pid_max of
// 32,768).
constexpr std::size_t kStoppedMax = 65'536;
// Maximum time in which one round stops processes before it kills them. All must be stopped before
// any is killed, since a fork bomb replaces killed processes.
constexpr auto kStopLimit = 1s;
// Maximum time that a search waits for processes in execve, whose environment is not visible.
// Usually less than a millisecond, unless a page of the program comes from a slow file system or
// the CPUs are busy: with ten processes per CPU it has taken more than 100 ms.
constexpr Deadline::Duration kExecSearchLimit = 1s;
// The same for a search that is repeated: a fork bomb may have started other processes meanwhile.
constexpr Deadline::Duration kRepeatedSearchLimit = 100ms;
constexpr int kExecPause = 1;  // milliseconds

/// Gives this thread a real-time priority for the lifetime of this object, where permitted:
/// otherwise a fork bomb of 400 processes leaves it a four-hundredth of the CPU.
class RealTimePriority {
 public:
  RealTimePriority() : policy_(::sched_getscheduler(0)) {
    ::sched_getparam(0, &parameters_);
    sched_param lowest{};
    lowest.sched_priority = ::sched_get_priority_min(SCHED_RR);
    rlimit processor_time{};
    ::getrlimit(RLIMIT_RTTIME, &processor_time);  // the kernel kills threads that exceed it
    is_urgent_ = policy_ >= 0 && processor_time.rlim_cur == RLIM_INFINITY &&
                 ::sched_setscheduler(0, SCHED_RR, &lowest) == 0;
  }
  RealTimePriority(const RealTimePriority&) = delete;
  RealTimePriority& operator=(const RealTimePriority&) = delete;
  ~RealTimePriority() {
    if (is_urgent_) ::sched_setscheduler(0, policy_, &parameters_);
  }

 private:
  int policy_;
  sched_param parameters_{};
  bool is_urgent_ = false;
};

void wait_for(const PendingExits& ends, Deadline deadline) {
  for (const auto& process : ends.processes) {
    pollfd ready{.fd = process.pidfd.get(), .events = POLLIN, .revents = 0};
    ::poll(&ready, 1, deadline.remaining_poll_milliseconds());
  }
  while (ends.cgroup_events && !deadline.passed() &&
         Cgroup::has_event(*ends.cgroup_events, Cgroup::kPopulated)) {
    pollfd change{.fd = ends.cgroup_events->get(), .events = POLLPRI, .revents = 0};
    ::poll(&change, 1, deadline.remaining_poll_milliseconds());
  }
}

}  // namespace

bool OpenProcess::signal(int signal) const noexcept {
  return ::syscall(SYS_pidfd_send_signal, pidfd.get(), signal, nullptr, 0) == 0;
}

bool OpenProcess::has_ended() const noexcept {
  pollfd ended{.fd = pidfd.get(), .events = POLLIN, .revents = 0};
  return ::poll(&ended, 1, 0) > 0;
}

std::optional<OpenProcess> open_process(pid_t pid) noexcept {
  UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (pidfd.get() < 0) return std::nullopt;
  return OpenProcess{.pid = pid, .pidfd = std::move(pidfd)};
}

bool PendingExits::are_all_refusing() const {
  return processes.empty() && !cgroup_events && !refusing.empty();
}

RunMembers::RunMembers(std::string word, std::optional<Cgroup> cgroup)
    : word_(std::move(word)), cgroup_(std::move(cgroup)) {}

RunMembers::~RunMembers() {
  if (is_parent_of_orphans_) ::prctl(PR_SET_CHILD_SUBREAPER, was_subreaper_, 0, 0, 0);
}

void RunMembers::become_parent_of_orphans() {
  earlier_children_ = children();
  ::prctl(PR_GET_CHILD_SUBREAPER, &was_subreaper_, 0, 0, 0);
  is_parent_of_orphans_ = ::prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0;
}

/// Linux (at least 6.18) also kills processes that are started in a cgroup after it has been
/// killed, so after a kill a new cgroup is created below the run's.
int RunMembers::cgroup_fd() {
  if (!cgroup_) return -1;
  if (has_killed_) {
    if (start_cgroup_) start_cgroup_->remove();
    start_cgroup_ = cgroup_->make_child(std::to_string(++start_cgroup_count_));
    has_killed_ = false;
  }
  return start_cgroup_ ? start_cgroup_->fd() : cgroup_->fd();
}

std::vector<pid_t> RunMembers::members() const {
  auto pids = pids_in_cgroup();
  visit_outside_cgroup([](pid_t) { return true; },
                       [&pids](const OpenProcess& member) { pids.push_back(member.pid); },
                       kExecSearchLimit);
  return pids;
}

/// Calls `visit` for each wanted member outside the cgroup as soon as it is found: in a fork bomb,
/// each stopped process leaves more CPU time to the search. Then waits at most `limit` for
/// processes in execve; returns false if some are left.
bool RunMembers::visit_outside_cgroup(const Choice& is_wanted, const Visit& visit,
                                      Deadline::Duration limit) const {
  const auto inside = pids_in_cgroup();
  const auto adopted = adopted_children();
  const auto is_in = [](const std::vector<pid_t>& sorted, pid_t pid) {
    return std::binary_search(sorted.begin(), sorted.end(), pid);
  };
  // The PID of a child is not reused before this process has reaped it.
  for (const pid_t child : adopted) {
    if (is_in(inside, child) || !is_wanted(child)) continue;
    if (auto process = open_process(child)) visit(*process);
  }
  if (!looks_for_marker()) return true;
  std::vector<OpenProcess> in_execve;
  for_each_process([&](pid_t pid) {
    if (is_in(inside, pid) || is_in(adopted, pid) || pid == ::getpid()) return;
    if (is_excluded(pid)) return;
    if (!is_wanted(pid)) return;
    // Opened before reading: if the process has not ended afterwards, the environment was its own.
    auto process = open_process(pid);
    if (process && !visit_if_marked(*process, visit)) in_execve.push_back(std::move(*process));
  });
  // All together, since one process that gets no CPU time would block the search for the others.
  const auto deadline = Deadline::after(limit);
  while (!in_execve.empty() && !deadline.passed()) {
    ::poll(nullptr, 0, kExecPause);
    std::erase_if(in_execve, [&](OpenProcess& process) { return visit_if_marked(process, visit); });
  }
  return in_execve.empty();
}

/// Returns false if the process is in execve, so that its membership is unknown.
bool RunMembers::visit_if_marked(OpenProcess& process, const Visit& visit) const {
  const auto is_marked = has_in_environment(process.pid, kMarkerName, word_);
  if (is_marked.value_or(false) && !process.has_ended()) visit(process);
  return is_marked.has_value();
}

void RunMembers::kill() const noexcept {
  if (!kill_cgroup()) {
    for (const auto& member : open_in_cgroup()) member.signal(SIGKILL);
  }
  visit_outside_cgroup([](pid_t) { return true; },
                       [](const OpenProcess& member) { member.signal(SIGKILL); }, kExecSearchLimit);
}

PendingExits RunMembers::open_members(Deadline deadline) const {
  if (has_none()) return {};
  const RealTimePriority priority;
  PendingExits ends;
  ends.processes = open_in_cgroup();
  visit_outside_cgroup([&deadline](pid_t) { return !deadline.passed(); },
                       [&](OpenProcess& member) { ends.processes.push_back(std::move(member)); },
                       std::min(deadline.remaining(), kExecSearchLimit));
  // The end of a thread group leader is reported shortly before the cgroup loses it.
  if (cgroup_) ends.cgroup_events = cgroup_->open_events();
  return ends;
}

PendingExits RunMembers::terminate(std::vector<pid_t>& signalled, Deadline deadline) const {
  auto ends = open_members(deadline);
  for (const auto& member : ends.processes) {
    if (!ignores(member.pid, SIGTERM) && member.signal(SIGTERM)) signalled.push_back(member.pid);
  }
  return ends;
}

void RunMembers::freeze() {
  const auto deadline = Deadline::after(kFreezeLimit);
  if (cgroup_) cgroup_->freeze(deadline);
  stop_outside_cgroup(frozen_, deadline,
                      [](pid_t pid) { return process_state(pid).letter != 'T'; });
  for (const pid_t child : excluded_) {
    if (auto process = open_process(child)) {
      process->signal(SIGSTOP);
      frozen_.push_back(std::move(*process));
    }
  }
}

/// Stops the wanted members outside the cgroup and adds them to `stopped`. They may fork until they
/// are stopped, so the search is repeated until it finds no others and leaves none in execve.
void RunMembers::stop_outside_cgroup(std::vector<OpenProcess>& stopped, Deadline deadline,
                                     const Choice& is_wanted) const {
  std::set<pid_t> known;
  for (const auto& process : stopped) known.insert(process.pid);
  bool may_be_more = true;
  while (may_be_more && known.size() < kStoppedMax && !deadline.passed()) {
    bool has_found_one = false;
    const auto is_new = [&](pid_t pid) { return !known.contains(pid) && is_wanted(pid); };
    const bool is_complete = visit_outside_cgroup(
        is_new,
        [&](OpenProcess& member) {
          has_found_one = true;
          member.signal(SIGSTOP);
          known.insert(member.pid);
          stopped.push_back(std::move(member));
        },
        std::min(deadline.remaining(), kRepeatedSearchLimit));
    may_be_more = has_found_one || !is_complete;
  }
}

void RunMembers::thaw() {
  if (cgroup_) cgroup_->thaw();
  for (const auto& member : frozen_) member.signal(SIGCONT);
  frozen_.clear();
}

std::optional<PendingExits> RunMembers::kill_round(std::vector<pid_t>& met) const {
  if (has_none()) return std::nullopt;
  const RealTimePriority priority;
  reap_orphans({});
  const auto add = [&met](pid_t pid) {
    if (std::find(met.begin(), met.end(), pid) == met.end()) met.push_back(pid);
  };
  PendingExits ends;
  if (cgroup_ && cgroup_->is_populated()) {
    for (const pid_t pid : cgroup_->members()) add(pid);
    if (!kill_cgroup()) ends.processes = open_in_cgroup();
    ends.cgroup_events = cgroup_->open_events();
  }
  stop_outside_cgroup(ends.processes, Deadline::after(kStopLimit), [](pid_t) { return true; });
  if (!ends.cgroup_events && ends.processes.empty()) {
    reap_orphans({});  // members that ended since the last search are zombies
    return std::nullopt;
  }
  for (auto& member : ends.processes) {
    add(member.pid);
    if (!member.signal(SIGKILL) && errno == EPERM) ends.refusing.push_back(member.pid);
  }
  std::erase_if(ends.processes, [&ends](const OpenProcess& member) {
    return std::find(ends.refusing.begin(), ends.refusing.end(), member.pid) != ends.refusing.end();
  });
  return ends;
}

void RunMembers::kill_until_none(Deadline deadline) const {
  std::vector<pid_t> met;
  while (const auto ends = kill_round(met)) {
    if (ends->are_all_refusing()) return;
    wait_for(*ends, deadline.remaining() < kRoundLimit ? deadline : Deadline::after(kRoundLimit));
    if (deadline.passed()) return;
  }
}

void RunMembers::reap_orphans(const std::vector<pid_t>& own) const noexcept {
  if (!is_parent_of_orphans_) return;
  for (const pid_t child : children()) {
    const bool is_own = std::find(own.begin(), own.end(), child) != own.end();
    if (is_own || is_excluded(child) || ::waitpid(child, nullptr, WNOHANG) <= 0) continue;
    std::erase(earlier_children_, child);  // its PID may be reused by an orphan
  }
}

void RunMembers::remove_cgroup() const noexcept {
  if (cgroup_) cgroup_->remove();
}

/// Returns true if the cgroup is empty and this process has no children (zombies included) except
/// the guardian and earlier ones. This is the usual end of a run, and avoids a search and a change
/// of the scheduling policy. Returns false if that cannot be read, for example for lack of
/// descriptors: a list of children without the guardian may be unread.
bool RunMembers::has_none() const {
  if (looks_for_marker() || !cgroup_->is_empty()) return false;
  const auto current = children();
  if (std::find(current.begin(), current.end(), guardian_) == current.end()) return false;
  return std::all_of(current.begin(), current.end(),
                     [this](pid_t child) { return is_no_member(child); });
}

bool RunMembers::is_excluded(pid_t child) const {
  return child == guardian_ ||
         std::find(excluded_.begin(), excluded_.end(), child) != excluded_.end();
}

bool RunMembers::is_no_member(pid_t child) const {
  return is_excluded(child) || std::find(earlier_children_.begin(), earlier_children_.end(),
                                         child) != earlier_children_.end();
}

std::vector<pid_t> RunMembers::adopted_children() const {
  if (!is_parent_of_orphans_) return {};
  auto adopted = children();
  // Process 1 of a container also adopts processes of `docker exec`.
  const bool adopts_others = ::getpid() == 1;
  std::erase_if(adopted, [&](pid_t child) {
    // Zombies that reap_orphans() leaves are reaped by other code.
    return is_no_member(child) || is_zombie(child) ||
           (adopts_others && !has_in_environment(child, kMarkerName, word_).value_or(false));
  });
  std::sort(adopted.begin(), adopted.end());
  return adopted;
}

bool RunMembers::looks_for_marker() const {
  return !cgroup_ || !is_parent_of_orphans_;
}

bool RunMembers::kill_cgroup() const noexcept {
  if (!cgroup_) return false;
  has_killed_ = true;
  return cgroup_->kill();
}

std::vector<pid_t> RunMembers::pids_in_cgroup() const {
  if (!cgroup_) return {};
  auto pids = cgroup_->members();
  std::sort(pids.begin(), pids.end());
  return pids;
}

/// PIDs may have been reused since they were read: opens the descriptors first, then reads the list
/// again.
std::vector<OpenProcess> RunMembers::open_in_cgroup() const {
  std::vector<OpenProcess> open;
  for (const pid_t pid : pids_in_cgroup()) {
    if (auto process = open_process(pid)) open.push_back(std::move(*process));
  }
  if (open.empty()) return open;
  const auto still = pids_in_cgroup();
  std::erase_if(open, [&still](const OpenProcess& process) {
    return !std::binary_search(still.begin(), still.end(), process.pid);
  });
  return open;
}

}  // namespace ddprun
