#include "launcher/process/run_members.hpp"

#include "launcher/process/proc_scan.hpp"

#include <algorithm>
#include <csignal>
#include <poll.h>
#include <sys/prctl.h>
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
// Without a cgroup: a program that forks without end cannot be stopped process by process.
constexpr std::size_t kFrozenMax = 65'536;

void wait_for(const EndsToCome& ends, Deadline deadline) {
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

void OpenProcess::signal(int signal) const noexcept {
  ::syscall(SYS_pidfd_send_signal, pidfd.get(), signal, nullptr, 0);
}

RunMembers::RunMembers(std::string word, std::optional<Cgroup> cgroup)
    : word_(std::move(word)), cgroup_(std::move(cgroup)) {}

RunMembers::~RunMembers() {
  if (is_parent_of_orphans_) ::prctl(PR_SET_CHILD_SUBREAPER, was_subreaper_, 0, 0, 0);
}

void RunMembers::become_parent_of_orphans() {
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
  if (cgroup_) return cgroup_->members();
  auto pids = processes_with(kMarkerName, word_);
  for (const pid_t child : adopted_children()) {
    if (std::find(pids.begin(), pids.end(), child) == pids.end()) pids.push_back(child);
  }
  return pids;
}

void RunMembers::kill() const noexcept {
  if (kill_cgroup()) return;
  for (const auto& member : open_members(members())) member.signal(SIGKILL);
}

EndsToCome RunMembers::ask(std::vector<pid_t>& asked) const {
  EndsToCome ends{.processes = open_members(members()), .cgroup_events = std::nullopt};
  for (const auto& member : ends.processes) {
    if (ignores(member.pid, SIGTERM)) continue;
    member.signal(SIGTERM);
    asked.push_back(member.pid);
  }
  // The end of a process' leader is told a little before the cgroup has lost it.
  if (cgroup_) ends.cgroup_events = cgroup_->open_events();
  return ends;
}

void RunMembers::freeze() {
  if (cgroup_) return cgroup_->freeze(Deadline::after(kFreezeLimit));
  // A process may fork until it is stopped, so until a look finds no other.
  while (frozen_.size() < kFrozenMax) {
    auto running = members();
    std::erase_if(running, [](pid_t pid) { return process_state(pid).letter == 'T'; });
    std::erase_if(running, [this](pid_t pid) { return is_frozen(pid); });
    auto open = open_members(running);
    if (open.empty()) return;
    for (auto& member : open) {
      member.signal(SIGSTOP);
      frozen_.push_back(std::move(member));
    }
  }
}

void RunMembers::thaw() {
  if (cgroup_) cgroup_->thaw();
  for (const auto& member : frozen_) member.signal(SIGCONT);
  frozen_.clear();
}

std::optional<EndsToCome> RunMembers::kill_round(std::vector<pid_t>& met) const {
  reap_orphans({});
  const auto pids = members();
  if (pids.empty() && !(cgroup_ && cgroup_->is_populated())) {
    reap_orphans({});  // who ended since the last look is no member any more, but a zombie
    return std::nullopt;
  }
  for (const pid_t pid : pids) {
    if (std::find(met.begin(), met.end(), pid) == met.end()) met.push_back(pid);
  }
  EndsToCome ends;
  if (kill_cgroup()) {
    ends.cgroup_events = cgroup_->open_events();
    return ends;
  }
  ends.processes = open_members(pids);
  for (const auto& member : ends.processes) member.signal(SIGKILL);
  return ends;
}

void RunMembers::kill_until_none(Deadline deadline) const {
  std::vector<pid_t> met;
  while (const auto ends = kill_round(met)) {
    wait_for(*ends, deadline.remaining() < kRoundLimit ? deadline : Deadline::after(kRoundLimit));
    if (deadline.passed()) return;
  }
}

void RunMembers::reap_orphans(const std::vector<pid_t>& own) const noexcept {
  if (!is_parent_of_orphans_) return;
  for (const pid_t child : children()) {
    const bool is_own = std::find(own.begin(), own.end(), child) != own.end();
    if (!is_own && child != guardian_) ::waitpid(child, nullptr, WNOHANG);
  }
}

void RunMembers::remove_cgroup() const noexcept {
  if (cgroup_) cgroup_->remove();
}

std::vector<pid_t> RunMembers::adopted_children() const {
  if (!is_parent_of_orphans_) return {};
  auto adopted = children();
  std::erase_if(adopted, [this](pid_t child) {
    // Zombies that reap_orphans() leaves have an owner.
    return child == guardian_ || process_state(child).letter == 'Z';
  });
  return adopted;
}

bool RunMembers::kill_cgroup() const noexcept {
  if (!cgroup_) return false;
  has_killed_ = true;
  return cgroup_->kill();
}

/// A process that is still in the kernel stops later than it was told to.
bool RunMembers::is_frozen(pid_t pid) const {
  return std::any_of(frozen_.begin(), frozen_.end(),
                     [pid](const OpenProcess& process) { return process.pid == pid; });
}

/// Those of the processes that are members. A number may have been given to another process since
/// it was read: the descriptors are opened first, then it is asked again, once for all.
std::vector<OpenProcess> RunMembers::open_members(const std::vector<pid_t>& pids) const noexcept {
  std::vector<OpenProcess> open;
  for (const pid_t pid : pids) {
    UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
    if (pidfd.get() >= 0) open.push_back({.pid = pid, .pidfd = std::move(pidfd)});
  }
  if (open.empty()) return open;
  auto still = members();
  std::sort(still.begin(), still.end());
  std::erase_if(open, [&still](const OpenProcess& process) {
    return !std::binary_search(still.begin(), still.end(), process.pid);
  });
  return open;
}

}  // namespace ddprun
