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

// How long to wait before looking again although a process that was killed has not ended.
constexpr auto kRoundLimit = 1s;
// A process in the kernel (a driver, a network file system) stops when it comes out; nobody who has
// pressed Ctrl-Z wants to wait for that.
constexpr auto kFreezeLimit = 1s;
// Outside a cgroup. More than a system has by default (pid_max of 32,768).
constexpr std::size_t kStoppedMax = 65'536;
// How long one round of kills may stop processes before it kills them. A program that forks without
// end replaces those that are killed, so none is killed before all are stopped.
constexpr auto kStopLimit = 1s;
// How long a search waits for processes in execve, which show no environment. That takes less than
// a millisecond, unless a page of the program has to come from a slow file system or other
// processes have the processor.
constexpr auto kExecLimit = 100ms;
constexpr int kExecPause = 1;  // milliseconds

/// Schedules this thread before all others during its lifetime, where the system permits that: a
/// fork bomb of 400 processes leaves a four-hundredth of the processor to the one that ends it.
class Urgent {
 public:
  Urgent() : policy_(::sched_getscheduler(0)) {
    ::sched_getparam(0, &parameters_);
    sched_param lowest{};
    lowest.sched_priority = ::sched_get_priority_min(SCHED_RR);
    rlimit processor_time{};
    ::getrlimit(RLIMIT_RTTIME, &processor_time);  // the kernel kills threads that exceed it
    is_urgent_ = policy_ >= 0 && processor_time.rlim_cur == RLIM_INFINITY &&
                 ::sched_setscheduler(0, SCHED_RR, &lowest) == 0;
  }
  Urgent(const Urgent&) = delete;
  Urgent& operator=(const Urgent&) = delete;
  ~Urgent() {
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
         Cgroup::tells(*ends.cgroup_events, Cgroup::kPopulated)) {
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

/// Linux 6.18 (at least) also kills what is started directly in a cgroup that has been killed
/// before, so after a kill there is a new one below the run's own.
int RunMembers::cgroup_fd() {
  if (!cgroup_) return -1;
  if (has_killed_) {
    if (birthplace_) birthplace_->remove();
    birthplace_ = cgroup_->make_child(std::to_string(++births_));
    has_killed_ = false;
  }
  return birthplace_ ? birthplace_->fd() : cgroup_->fd();
}

std::vector<pid_t> RunMembers::members() const {
  auto pids = pids_in_cgroup();
  visit_outside_cgroup([](pid_t) { return true; },
                       [&pids](const OpenProcess& member) { pids.push_back(member.pid); });
  return pids;
}

/// Calls `visit` for each wanted member outside the cgroup as soon as it has been found: in a fork
/// bomb, each process that has been stopped leaves more of the processor to the search.
void RunMembers::visit_outside_cgroup(const Choice& is_wanted, const Visit& visit) const {
  const auto inside = pids_in_cgroup();
  const auto adopted = adopted_children();
  const auto is_in = [](const std::vector<pid_t>& sorted, pid_t pid) {
    return std::binary_search(sorted.begin(), sorted.end(), pid);
  };
  // The number of a child stays its own until this process has reaped it.
  for (const pid_t child : adopted) {
    if (is_in(inside, child) || !is_wanted(child)) continue;
    if (auto process = open_process(child)) visit(*process);
  }
  if (!looks_for_marker()) return;
  std::vector<OpenProcess> in_execve;
  for_each_process([&](pid_t pid) {
    if (is_in(inside, pid) || is_in(adopted, pid) || pid == ::getpid()) return;
    if (!is_wanted(pid)) return;
    // Opened first: if it has not ended afterwards, the environment was its own.
    auto process = open_process(pid);
    if (process && !visit_if_marked(*process, visit)) in_execve.push_back(std::move(*process));
  });
  // Together, as one that others do not let run would keep the search from the rest.
  const auto deadline = Deadline::after(kExecLimit);
  while (!in_execve.empty() && !deadline.passed()) {
    ::poll(nullptr, 0, kExecPause);
    std::erase_if(in_execve, [&](OpenProcess& process) { return visit_if_marked(process, visit); });
  }
}

/// Returns false if the process is in execve, so that it is not known whether it is a member.
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
                       [](const OpenProcess& member) { member.signal(SIGKILL); });
}

PendingExits RunMembers::ask(std::vector<pid_t>& asked, Deadline deadline) const {
  if (has_none()) return {};
  const Urgent urgent;
  PendingExits ends;
  const auto ask_one = [&](OpenProcess& member) {
    if (!ignores(member.pid, SIGTERM) && member.signal(SIGTERM)) asked.push_back(member.pid);
    ends.processes.push_back(std::move(member));
  };
  for (auto& member : open_in_cgroup()) ask_one(member);
  visit_outside_cgroup([&deadline](pid_t) { return !deadline.passed(); }, ask_one);
  // The end of a process' leader is told a little before the cgroup has lost it.
  if (cgroup_) ends.cgroup_events = cgroup_->open_events();
  return ends;
}

void RunMembers::freeze() {
  const auto deadline = Deadline::after(kFreezeLimit);
  if (cgroup_) cgroup_->freeze(deadline);
  stop_outside_cgroup(frozen_, deadline,
                      [](pid_t pid) { return process_state(pid).letter != 'T'; });
}

/// Stops the wanted members outside the cgroup and adds them to `stopped`. They may fork until they
/// are stopped, so it searches again until it finds no other.
void RunMembers::stop_outside_cgroup(std::vector<OpenProcess>& stopped, Deadline deadline,
                                     const Choice& is_wanted) const {
  std::set<pid_t> known;
  for (const auto& process : stopped) known.insert(process.pid);
  bool has_found_one = true;
  while (has_found_one && known.size() < kStoppedMax && !deadline.passed()) {
    has_found_one = false;
    const auto is_new = [&](pid_t pid) { return !known.contains(pid) && is_wanted(pid); };
    visit_outside_cgroup(is_new, [&](OpenProcess& member) {
      has_found_one = true;
      member.signal(SIGSTOP);
      known.insert(member.pid);
      stopped.push_back(std::move(member));
    });
  }
}

void RunMembers::thaw() {
  if (cgroup_) cgroup_->thaw();
  for (const auto& member : frozen_) member.signal(SIGCONT);
  frozen_.clear();
}

std::optional<PendingExits> RunMembers::kill_round(std::vector<pid_t>& met) const {
  if (has_none()) return std::nullopt;
  const Urgent urgent;
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
    if (is_own || child == guardian_ || ::waitpid(child, nullptr, WNOHANG) <= 0) continue;
    std::erase(earlier_children_, child);  // its number may be given to an orphan
  }
}

void RunMembers::remove_cgroup() const noexcept {
  if (cgroup_) cgroup_->remove();
}

/// Returns true if the cgroup is empty and this process has no children, zombies included, but the
/// guardian and earlier ones. Most runs end so: they need neither a search nor another scheduling
/// policy. Returns false if it cannot be read, as for lack of descriptors: a list of children
/// without the guardian may be one that was not read.
bool RunMembers::has_none() const {
  if (looks_for_marker() || !cgroup_->is_empty()) return false;
  const auto current = children();
  if (std::find(current.begin(), current.end(), guardian_) == current.end()) return false;
  return std::all_of(current.begin(), current.end(),
                     [this](pid_t child) { return is_no_member(child); });
}

bool RunMembers::is_no_member(pid_t child) const {
  return child == guardian_ || std::find(earlier_children_.begin(), earlier_children_.end(),
                                         child) != earlier_children_.end();
}

std::vector<pid_t> RunMembers::adopted_children() const {
  if (!is_parent_of_orphans_) return {};
  auto adopted = children();
  // Process 1 of a container also adopts what `docker exec` has started.
  const bool adopts_others = ::getpid() == 1;
  std::erase_if(adopted, [&](pid_t child) {
    // Zombies that reap_orphans() leaves have an owner.
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

/// A number may have been given to another process since it was read: the descriptors are opened
/// first, then the list is read again.
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
