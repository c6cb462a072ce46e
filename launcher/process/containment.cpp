#include "launcher/process/containment.hpp"

#include "launcher/process/cgroup.hpp"
#include "launcher/process/folder_lock.hpp"
#include "launcher/process/guardian.hpp"
#include "launcher/process/kernel_wait.hpp"
#include "rendezvous/base/text.hpp"
#include <ddprun/error.hpp>

#include <utility>
#include <vector>

namespace ddprun {

namespace {

using namespace std::chrono_literals;

// A killed process ends at once unless it hangs in the kernel (a driver, a dead network file
// system) or has much memory to release.
constexpr auto kDestructorLimit = 1s;
// Maximum delay of the start by processes of earlier runs.
constexpr auto kStaleLimit = 1s;
// Maximum number of stale processes named in one warning.
constexpr std::size_t kNamedMax = 8;

void end_stale_runs(const Log& log) {
  std::vector<std::string> killed;
  for (const auto& stale : Cgroup::end_stale_runs(Deadline::after(kStaleLimit))) {
    if (!stale.is_left) {
      killed.push_back(std::to_string(stale.pid) + " (" + stale.name + ")");
      continue;
    }
    write_log(log, LogLevel::warn,
              process_and_name(stale.pid) +
                  ", left by an earlier run, cannot be killed and may still write: " +
                  describe(kernel_wait(stale.pid)));
  }
  if (killed.empty()) return;
  const auto count = killed.size();
  if (count > kNamedMax) {
    killed.resize(kNamedMax);
    killed.push_back("and " + std::to_string(count - kNamedMax) + " more");
  }
  write_log(log, LogLevel::warn,
            "killed " + std::to_string(count) + (count == 1 ? " process" : " processes") +
                " that an earlier run had left: " + join(killed, ", "));
}

/// Returns nullopt if the run uses its marker only.
std::optional<Cgroup> make_cgroup(const std::string& word, ContainmentMode mode, const Log& log) {
  if (mode == ContainmentMode::marker) return std::nullopt;
  end_stale_runs(log);
  std::string reason;
  auto cgroup = Cgroup::create(kRunCgroupPrefix + word, reason);
  if (cgroup) return cgroup;
  if (mode == ContainmentMode::cgroup) throw Error(Errc::system, "containment: " + reason);
  write_log(log, LogLevel::debug,
            "no cgroup of its own for this run (" + reason +
                "): descendants are found by a marker in their environment");
  return std::nullopt;
}

/// Default for callers that do not set the program, such as tests.
std::string program_beside_this() {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/exe", error).parent_path() / "ddprun";
}

}  // namespace

class Containment::Impl {
 public:
  Impl(const ContainmentSettings& settings, const Log& log) : Impl(settings, log, random_word()) {
    // If one of these throws, the destructor removes the cgroup, since the delegated constructor
    // has completed.
    members.become_parent_of_orphans();
    start_guardian();
  }

  ~Impl() {
    members.thaw();
    members.kill_until_none(Deadline::after(kDestructorLimit));
    members.remove_cgroup();
  }

  void start_guardian() {
    guardian.start();
    members.set_guardian(guardian.pid());
  }

  void guard_until(Deadline::Clock::time_point end) {
    if (guardian.set_deadline(end)) return;
    members.note_kill();
    start_guardian();
  }

  RunMembers members;
  std::string program;
  Guardian guardian;

 private:
  Impl(const ContainmentSettings& settings, const Log& log, const std::string& word)
      : members(word, make_cgroup(word, settings.mode, log)),
        program(settings.program.empty() ? program_beside_this() : settings.program),
        guardian(program,
                 {.word = word,
                  .cgroup = members.cgroup() ? members.cgroup()->folder() : std::filesystem::path(),
                  .temporary_folder = settings.temporary_folder,
                  .temporary_folder_fd = settings.temporary_folder_fd}) {}
};

Containment::Containment(const ContainmentSettings& settings, const Log& log)
    : impl_(std::make_unique<Impl>(settings, log)) {}

Containment::~Containment() = default;

ContainmentMode Containment::mode() const {
  return impl_->members.cgroup() ? ContainmentMode::cgroup : ContainmentMode::marker;
}

const std::string& Containment::program() const {
  return impl_->program;
}

bool Containment::is_parent_of_orphans() const {
  return impl_->members.is_parent_of_orphans();
}

pid_t Containment::guardian_pid() const {
  return impl_->guardian.pid();
}

int Containment::guardian_pidfd() const {
  return impl_->guardian.pidfd();
}

void Containment::replace_guardian() {
  impl_->start_guardian();
}

void Containment::guard_until(Deadline::Clock::time_point end) {
  impl_->guard_until(end);
}

std::pair<std::string, std::string> Containment::marker() const {
  return {kMarkerName, impl_->members.word()};
}

int Containment::cgroup_fd() {
  return impl_->members.cgroup_fd();
}

std::vector<pid_t> Containment::members() const {
  return impl_->members.members();
}

void Containment::reap_orphans(const std::vector<pid_t>& own) const noexcept {
  impl_->members.reap_orphans(own);
}

void Containment::exclude(pid_t child) {
  impl_->members.exclude(child);
}

void Containment::include(pid_t child) {
  impl_->members.include(child);
}

void Containment::freeze() {
  impl_->members.freeze();
}

void Containment::thaw() {
  impl_->members.thaw();
}

void Containment::kill() const noexcept {
  impl_->members.kill();
}

PendingExits Containment::open_members(Deadline deadline) const {
  return impl_->members.open_members(deadline);
}

PendingExits Containment::terminate(std::vector<pid_t>& signalled, Deadline deadline) const {
  return impl_->members.terminate(signalled, deadline);
}

std::optional<PendingExits> Containment::kill_round(std::vector<pid_t>& met) const {
  return impl_->members.kill_round(met);
}

}  // namespace ddprun
