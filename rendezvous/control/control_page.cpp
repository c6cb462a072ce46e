#include "rendezvous/control/control_page.hpp"

#include "rendezvous/base/error_text.hpp"
#include "rendezvous/base/futex.hpp"
#include "rendezvous/base/local_workers.hpp"
#include "rendezvous/base/quiet_write.hpp"
#include "rendezvous/base/unique_fd.hpp"
#include "rendezvous/control/flight_recorder.hpp"
#include <ddprun/error.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <pthread.h>
#include <string>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace ddprun::control {

namespace {

constexpr std::uint64_t kMagic = 0x6464'7072'756e'0004;  // "ddprun" and the layout's version
constexpr std::size_t kReasonBytes = 200;
constexpr std::size_t kMemoryPage = 4096;

using Word = std::atomic<std::uint32_t>;
static_assert(Word::is_always_lock_free && sizeof(Word) == 4);

/// Rounds to the system's pages, which may be larger than kMemoryPage (64 KiB on some ARM systems).
bool let_write(void* begin, std::size_t bytes) noexcept {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const std::size_t before = reinterpret_cast<std::uintptr_t>(begin) % page;
  return ::mprotect(static_cast<char*>(begin) - before, before + bytes, PROT_READ | PROT_WRITE) ==
         0;
}

/// The page that holds the run's key.
void keep_out_of_core_files(void* layout) noexcept {
  ::madvise(layout, kMemoryPage, MADV_DONTDUMP);
}

// "Control page" is an internal term, so messages describe the memory instead.

std::string of_agent(const std::string& problem) {
  return "memory shared with the workers: " + problem;
}

std::string of_worker(const std::string& problem) {
  return "memory shared with ddprun: " + problem;
}

}  // namespace

struct ControlPage::Layout {
  struct alignas(64) Slot {
    pthread_mutex_t life;  // robust, process-shared, held by the worker's main thread until it ends
    Word phase;            // a WorkerPhase
    std::atomic<std::int32_t> exit_status;
    std::atomic<std::int32_t> pid;

    /// glibc keeps the futex word of a mutex first: owner's thread id, FUTEX_WAITERS,
    /// FUTEX_OWNER_DIED.
    Word& life_word() { return *reinterpret_cast<Word*>(&life); }
    bool has_announced() const { return phase.load(std::memory_order_acquire) != 0; }
    bool is_dead() {
      return has_announced() &&
             (life_word().load(std::memory_order_acquire) & FUTEX_OWNER_DIED) != 0;
    }
  };

  static_assert(sizeof(Slot) <= kSlotBytes);

  // Read by all, written by the agent.
  std::uint64_t magic;
  std::int32_t local_world_size;
  std::int32_t round;
  Word abort_claim;  // the first to set it writes the record
  Word abort_word;   // futex: the record is complete
  std::int32_t abort_rank;
  std::array<char, kReasonBytes + 1> abort_reason;
  bool has_run_key;
  Digest run_key;

  // Written by all.
  alignas(kMemoryPage) Word change_count;  // futex: counts announcements and wake() calls

  char* area(int local_rank) {
    return reinterpret_cast<char*>(this + 1) +
           static_cast<std::size_t>(local_rank) * flight_area_bytes();
  }
  Slot& slot(int local_rank) { return *reinterpret_cast<Slot*>(area(local_rank)); }
  static std::size_t bytes(int local_world_size) {
    return sizeof(Layout) + static_cast<std::size_t>(local_world_size) * flight_area_bytes();
  }

  void note_change() noexcept {
    change_count.fetch_add(1, std::memory_order_release);
    futex_wake_all(&change_count);
  }

  /// Adds the life of each worker that is alive. Returns false if a worker has died that is not
  /// known to be dead. Workers beyond the limit of the set are watched by their pidfds only.
  bool add_lives(FutexSet& set, int workers, const bool* known_dead) {
    for (int i = 0; i < workers && !set.is_full(); ++i) {
      if (known_dead[i] || !slot(i).has_announced()) continue;
      // The kernel wakes a dead owner's waiters only if the bit is set.
      const std::uint32_t before =
          slot(i).life_word().fetch_or(FUTEX_WAITERS, std::memory_order_acq_rel);
      if ((before & FUTEX_OWNER_DIED) != 0) return false;
      set.add(&slot(i).life_word(), before | FUTEX_WAITERS);
    }
    return true;
  }
};

ControlPage ControlPage::create(int local_world_size, int round,
                                const std::optional<Digest>& run_key) {
  if (local_world_size < 1 || local_world_size > kLocalWorkersMax) {
    throw Error(Errc::usage, std::to_string(local_world_size) + " workers on one node: 1 to " +
                                 std::to_string(kLocalWorkersMax) + " are possible");
  }
  static_assert(sizeof(Layout) == 8192, "python/ddprun skips as many bytes");
  const std::size_t bytes = Layout::bytes(local_world_size);
  UniqueFd fd(::memfd_create("ddprun-control", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (fd.get() < 0) throw_system_error(of_agent("memfd_create"), errno);
  if (quiet_truncate(fd.get(), static_cast<off_t>(bytes)) != 0) {
    const int error = errno;
    throw Error(
        Errc::system,
        of_agent(std::to_string(bytes) + " bytes cannot be allocated: " + error_text(error) +
                 (error == EFBIG ? "; RLIMIT_FSIZE must be at least that" : "")),
        error);
  }
  // Accessing memory that a worker has truncated would raise SIGBUS in the agent.
  if (::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
    throw_system_error(of_agent("F_ADD_SEALS"), errno);
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (memory == MAP_FAILED) throw_system_error(of_agent("mmap (see RLIMIT_AS)"), errno);
  ControlPage page(fd.release(), static_cast<Layout*>(memory), local_world_size, round);
  page.layout_->magic = kMagic;
  page.layout_->local_world_size = local_world_size;
  page.layout_->round = round;
  page.layout_->has_run_key = run_key.has_value();
  page.layout_->run_key = run_key.value_or(Digest{});
  keep_out_of_core_files(page.layout_);
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
  for (int i = 0; i < local_world_size; ++i)
    pthread_mutex_init(&page.layout_->slot(i).life, &attributes);
  pthread_mutexattr_destroy(&attributes);
  return page;
}

ControlPage ControlPage::attach(int fd, int local_rank) {
  const auto thing = of_worker("descriptor " + std::to_string(fd));
  struct stat status {};
  if (::fstat(fd, &status) != 0) throw_system_error(thing, errno);
  const auto bytes = static_cast<std::size_t>(status.st_size);
  if (!S_ISREG(status.st_mode) || bytes < Layout::bytes(1)) {
    throw Error(Errc::usage, thing + ": ddprun has not created it (is DDPRUN_CONTROL_FD stale?)");
  }
  void* memory = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) throw_system_error(thing + ": mmap (see RLIMIT_AS)", errno);
  auto* layout = static_cast<Layout*>(memory);
  const int workers = layout->local_world_size;
  const bool is_page = layout->magic == kMagic && workers >= 1 && workers <= kLocalWorkersMax &&
                       bytes == Layout::bytes(workers);
  if (!is_page || local_rank < 0 || local_rank >= workers) {
    ::munmap(memory, bytes);
    throw Error(Errc::usage,
                is_page ? thing + ": no slot for local rank " + std::to_string(local_rank)
                        : thing + ": created by another version of ddprun, or not by ddprun");
  }
  if (!let_write(&layout->change_count, kMemoryPage) ||
      !let_write(layout->area(local_rank), flight_area_bytes())) {
    const int error = errno;
    ::munmap(memory, bytes);
    throw_system_error(thing + ": mprotect", error);
  }
  keep_out_of_core_files(layout);
  ::fcntl(fd, F_SETFD, FD_CLOEXEC);
  return ControlPage(fd, layout, workers, layout->round);
}

ControlPage ControlPage::attach_again(int fd, int local_rank) {
  const int copy = ::fcntl(fd, F_DUPFD_CLOEXEC, 0);
  if (copy < 0) throw_system_error(of_worker("descriptor " + std::to_string(fd)), errno);
  try {
    return attach(copy, local_rank);
  } catch (...) {
    ::close(copy);
    throw;
  }
}

ControlPage::ControlPage(ControlPage&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      layout_(std::exchange(other.layout_, nullptr)),
      local_world_size_(other.local_world_size_),
      round_(other.round_) {}

ControlPage& ControlPage::operator=(ControlPage&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(layout_, other.layout_);
  std::swap(local_world_size_, other.local_world_size_);
  std::swap(round_, other.round_);
  return *this;
}

ControlPage::~ControlPage() {
  if (layout_ != nullptr) ::munmap(layout_, Layout::bytes(local_world_size_));
  if (fd_ >= 0) ::close(fd_);
}

void ControlPage::announce_alive(int local_rank) {
  Layout::Slot& slot = layout_->slot(local_rank);
  const int error = pthread_mutex_trylock(&slot.life);
  if (error != 0) {
    throw Error(Errc::usage, of_worker("run_worker() was called twice, or by two programs with the "
                                       "environment of local rank " +
                                       std::to_string(local_rank)));
  }
  slot.pid.store(::getpid());
  slot.phase.store(static_cast<std::uint32_t>(WorkerPhase::alive), std::memory_order_release);
  layout_->note_change();
}

void ControlPage::announce_exit(int local_rank, int exit_status) noexcept {
  Layout::Slot& slot = layout_->slot(local_rank);
  // A forked child runs its parent's exit handlers, but is not the worker.
  if (slot.pid.load() != ::getpid()) return;
  slot.exit_status.store(exit_status);
  slot.phase.store(static_cast<std::uint32_t>(WorkerPhase::exiting), std::memory_order_release);
  layout_->note_change();
}

std::optional<Digest> ControlPage::run_key() const {
  if (!layout_->has_run_key) return std::nullopt;
  return layout_->run_key;
}

WorkerPhase ControlPage::phase(int local_rank) const {
  return static_cast<WorkerPhase>(layout_->slot(local_rank).phase.load(std::memory_order_acquire));
}

pid_t ControlPage::pid(int local_rank) const {
  return layout_->slot(local_rank).pid.load();
}

int ControlPage::exit_status(int local_rank) const {
  return layout_->slot(local_rank).exit_status.load();
}

bool ControlPage::is_dead(int local_rank) const {
  return layout_->slot(local_rank).is_dead();
}

std::optional<std::string> ControlPage::damage(int local_rank) const {
  const std::uint32_t phase = layout_->slot(local_rank).phase.load(std::memory_order_acquire);
  if (phase <= static_cast<std::uint32_t>(WorkerPhase::exiting)) return std::nullopt;
  return "phase " + std::to_string(phase);
}

std::uint32_t ControlPage::changes() const noexcept {
  return layout_->change_count.load(std::memory_order_acquire);
}

void ControlPage::wait_for_change(std::uint32_t changes_seen, const bool* known_dead,
                                  Deadline deadline) const {
  FutexSet set;
  set.add(&layout_->change_count, changes_seen);
  if (layout_->add_lives(set, local_world_size_, known_dead)) set.sleep(deadline);
}

void ControlPage::wake() const noexcept {
  layout_->note_change();
}

void ControlPage::abort(const AbortRecord& record) noexcept {
  if (layout_->abort_claim.exchange(1) != 0) return;
  layout_->abort_rank = record.rank;
  const std::size_t length = std::min(record.reason.size(), kReasonBytes);
  std::memcpy(layout_->abort_reason.data(), record.reason.data(), length);
  layout_->abort_reason[length] = '\0';
  layout_->abort_word.store(1, std::memory_order_release);
  futex_wake_all(&layout_->abort_word);
}

bool ControlPage::is_aborted() const noexcept {
  return layout_->abort_word.load(std::memory_order_acquire) != 0;
}

const std::atomic<std::uint32_t>& ControlPage::abort_word() const noexcept {
  return layout_->abort_word;
}

std::optional<AbortRecord> ControlPage::abort_record() const {
  if (!is_aborted()) return std::nullopt;
  const char* const reason = layout_->abort_reason.data();
  return AbortRecord{.rank = layout_->abort_rank,
                     .reason = {reason, ::strnlen(reason, kReasonBytes)}};
}

void* ControlPage::worker_area(int local_rank) const {
  return layout_->area(local_rank);
}

}  // namespace ddprun::control
