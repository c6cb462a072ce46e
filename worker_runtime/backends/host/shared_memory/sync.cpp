#include "worker_runtime/backends/host/shared_memory/sync.hpp"

#include "rendezvous/base/futex.hpp"
#include "rendezvous/base/processor.hpp"
#include <ddprun/error.hpp>
#include <ddprun/peer_failed.hpp>

#include <sched.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

namespace ddprun::shared_memory {

namespace {

// About the time of waking a thread, so that a short delay of a peer needs no system call.
constexpr int kSpins = 2000;
constexpr int kSpinsPerCheck = 250;
// Number of yields to a peer on the same core before sleeping.
constexpr int kYields = 30;

std::uint32_t current_cpu() {
  return static_cast<std::uint32_t>(::sched_getcpu());
}

/// Passes a moment of a wait for `counter`. Its writer cannot run if this thread spins on its CPU.
void spin_once(const Counter& counter) {
  if (counter.cpu.load(std::memory_order_relaxed) == current_cpu()) {
    ::sched_yield();
  } else {
    pause_core();
  }
}

/// Sets FUTEX_WAITERS in the word of the mutex, without which the kernel wakes no thread when the
/// holder dies. These mutexes are locked once, so a word without a holder is not changed. Returns
/// the word.
std::uint32_t mark_watched(Word& life) {
  std::uint32_t seen = life.load(std::memory_order_acquire);
  while ((seen & FUTEX_TID_MASK) != 0 && (seen & FUTEX_WAITERS) == 0) {
    if (life.compare_exchange_weak(seen, seen | FUTEX_WAITERS)) return seen | FUTEX_WAITERS;
  }
  return seen;
}

}  // namespace

void throw_failure(const FailureRecord& failure, int own_rank) {
  switch (failure.kind) {
    case FailureKind::timeout:
      throw Error(Errc::timeout, failure.text);
    case FailureKind::mismatch:
      throw Error(Errc::usage, failure.text);
    case FailureKind::aborted:
      if (failure.rank == own_rank) throw Error(Errc::closed, failure.text);
      break;
    case FailureKind::none:
    case FailureKind::died:
    case FailureKind::left:
      break;
  }
  throw PeerFailed(failure.rank, failure.text);
}

Sync::Sync(const Region& region, int rank, std::optional<control::ControlPage> page,
           RankNames names, Deadline::Duration death_check_period)
    : region_(region),
      rank_(rank),
      page_(std::move(page)),
      names_(std::move(names)),
      death_check_period_(death_check_period) {}

void Sync::hold_life() {
  if (pthread_mutex_trylock(&region_.line(rank_).life) != 0) {
    throw Error(Errc::usage, "process group: " + names_.name(rank_) +
                                 " is already taken (do two workers have the same RANK?)");
  }
  holds_life_ = true;
  // Waiting threads have recorded the word as unowned.
  futex_wake_all(&region_.line(rank_).life_word());
}

void Sync::release_life() noexcept {
  if (!holds_life_) return;
  RankLine& line = region_.line(rank_);
  line.left.store(1);
  pthread_mutex_unlock(&line.life);
  futex_wake_all(&line.life_word());
}

void Sync::publish_cores() const {
  auto& published = region_.line(rank_).cores;
  cpu_set_t cores;
  static_assert(sizeof cores <= sizeof published);
  // A machine with more cores than fit into the set has enough cores for any group.
  if (::sched_getaffinity(0, sizeof cores, &cores) != 0) return published.fill(~std::uint64_t{0});
  std::memcpy(published.data(), &cores, sizeof cores);
}

void Sync::read_cores() {
  int cores = 0;
  for (std::size_t word = 0; word < kCoreWords; ++word) {
    std::uint64_t all_ranks = 0;
    for (int rank = 0; rank < region_.ranks(); ++rank) all_ranks |= region_.line(rank).cores[word];
    cores += std::popcount(all_ranks);
  }
  spins_ = region_.ranks() <= cores ? kSpins : 0;
}

void Sync::publish(Counter& counter, std::uint64_t value) const {
  // Sequentially consistent, like the announcement of a sleeper: either the sleeper sees the value
  // or this thread sees the sleeper.
  counter.cpu.store(current_cpu(), std::memory_order_relaxed);
  counter.value.store(value);
  if (counter.sleepers.load() != 0) futex_wake_all(counter.futex());
}

bool Sync::wait(Counter& counter, std::uint64_t target, int writer, Deadline deadline) const {
  if (has_reached(counter, target)) return true;
  const auto check_awaited = [&] {
    check();
    check_writer(counter, target, writer);
  };
  return await({counter, target, writer, std::cref(check_awaited)}, deadline);
}

bool Sync::await(const Awaited& awaited, Deadline deadline) const {
  const auto reached = [&] { return has_reached(awaited.counter, awaited.target); };
  for (int i = 1; i <= spins_; ++i) {
    spin_once(awaited.counter);
    if (reached()) return true;
    if (i % kSpinsPerCheck == 0) awaited.check();
  }
  for (int i = 0; i < kYields; ++i) {
    ::sched_yield();
    if (reached()) return true;
    // If others need the core, a yield may take milliseconds.
    awaited.check();
  }
  while (!reached()) {
    if (deadline.passed()) return false;
    sleep(awaited, deadline);
  }
  return true;
}

void Sync::fail(FailureKind kind, int rank, const std::string& text) const noexcept {
  Failure& failure = region_.head().failure;
  std::uint32_t unclaimed = 0;
  if (!failure.claim.compare_exchange_strong(unclaimed, static_cast<std::uint32_t>(rank_) + 1))
    return;
  failure.rank = rank;
  const std::size_t length = std::min(text.size(), kFailureTextBytes);
  std::memcpy(failure.text.data(), text.data(), length);
  failure.text[length] = '\0';
  failure.word.store(static_cast<std::uint32_t>(kind));
  futex_wake_all(&failure.word);
}

void Sync::fail_and_throw(FailureKind kind, int rank, const std::string& text) const {
  fail(kind, rank, text);
  check();
  // Another thread's record is incomplete.
  throw_failure({kind, rank, text}, names_.number(rank_));
}

void Sync::await_record() const noexcept {
  const Failure& failure = region_.head().failure;
  while (failure.claim.load() != 0 && failure.word.load() == 0 &&
         !has_died(static_cast<int>(failure.claim.load()) - 1)) {
    ::sched_yield();
  }
}

bool Sync::has_died(int rank) const {
  return (region_.line(rank).life_word().load(std::memory_order_acquire) & FUTEX_OWNER_DIED) != 0;
}

void Sync::check() const {
  const Failure& shared = region_.head().failure;
  // In this order: a claiming rank that has died with an incomplete record never completes it.
  const int author = static_cast<int>(shared.claim.load(std::memory_order_acquire)) - 1;
  const bool is_orphan = author >= 0 && has_died(author);
  if (const auto record = failure()) throw_failure(*record, names_.number(rank_));
  if (is_orphan) throw PeerFailed(names_.number(author), names_.name(author) + " died");
  if (page_ && page_->is_aborted()) {
    const auto record = page_->abort_record();
    fail_and_throw(FailureKind::died, record->rank, "the attempt was ended: " + record->reason);
  }
}

void Sync::check_all() const {
  check();
  for (int rank = 0; rank < region_.ranks(); ++rank) {
    if (rank == rank_ || !has_died(rank)) continue;
    fail_and_throw(FailureKind::died, names_.number(rank), names_.name(rank) + " died");
  }
}

std::optional<FailureRecord> Sync::failure() const {
  const Failure& shared = region_.head().failure;
  // Sequentially consistent, like a rank's mark that it accesses buffers: either this rank sees the
  // failure or the failing rank sees the mark.
  const auto kind = static_cast<FailureKind>(shared.word.load());
  if (kind == FailureKind::none) return std::nullopt;
  return FailureRecord{kind, shared.rank, shared.text.data()};
}

void Sync::check_writer(const Counter& counter, std::uint64_t target, int writer) const {
  const bool left = region_.line(writer).left.load(std::memory_order_acquire) != 0;
  const bool died = has_died(writer);
  if (!left && !died) return;
  // Progress of the writer before its end counts.
  if (has_reached(counter, target)) return;
  const int rank = names_.number(writer);
  if (died) fail_and_throw(FailureKind::died, rank, names_.name(writer) + " died");
  fail_and_throw(FailureKind::left, rank, names_.name(writer) + " has left the process group");
}

void Sync::sleep(const Awaited& awaited, Deadline deadline) const {
  struct Announcement {
    explicit Announcement(Word& sleepers) : count(sleepers) { count.fetch_add(1); }
    ~Announcement() { count.fetch_sub(1); }
    Announcement(const Announcement&) = delete;
    Announcement& operator=(const Announcement&) = delete;
    Word& count;
  } const announcement(awaited.counter.sleepers);

  const std::uint64_t seen = awaited.counter.value.load();
  if (seen >= awaited.target) return;
  FutexSet set;
  set.add(awaited.counter.futex(), static_cast<std::uint32_t>(seen));
  set.add(&region_.head().failure.word, 0);
  if (page_) set.add(&page_->abort_word(), 0);
  add_lives(set, awaited.writer);
  awaited.check();
  sleep(set, deadline);
}

void Sync::await_failure(const Word& stop) const {
  while (stop.load() == 0 && region_.head().failure.word.load() == 0) {
    FutexSet set;
    set.add(&stop, 0);
    set.add(&region_.head().failure.word, 0);
    if (page_) set.add(&page_->abort_word(), 0);
    add_lives(set, rank_);
    const bool is_over = page_ && page_->is_aborted();
    if (is_over || any_has_died()) break;
    sleep(set, Deadline::never());
  }
}

void Sync::sleep(const FutexSet& set, Deadline deadline) const {
  set.sleep(Deadline::after(std::min(deadline.remaining(), death_check_period_)));
  wake_other_watchers();
}

bool Sync::any_has_died() const {
  for (int rank = 0; rank < region_.ranks(); ++rank) {
    if (rank != rank_ && has_died(rank)) return true;
  }
  return false;
}

/// `awaited`: the awaited rank; this rank if any rank is awaited.
void Sync::add_lives(FutexSet& set, int awaited) const {
  const int ranks = region_.ranks();
  const int neighbours = watches_all() ? ranks - 1 : kNeighboursWatched;
  if (awaited != rank_) add_life(set, awaited);
  for (int distance = 1; distance <= neighbours; ++distance) {
    const int rank = (rank_ + distance) % ranks;
    if (rank != awaited) add_life(set, rank);
  }
}

void Sync::add_life(FutexSet& set, int rank) const {
  RankLine& line = region_.line(rank);
  const std::uint32_t word = mark_watched(line.life_word());
  // The word of a rank that has not joined yet is watched as well, since that rank may join and
  // die.
  const bool is_over = (word & FUTEX_OWNER_DIED) != 0 || line.left.load() != 0;
  if (!is_over) set.add(&line.life_word(), word);
}

/// Terminates, since threads do not sleep on a word that shows a death.
void Sync::wake_other_watchers() const noexcept {
  for (int rank = 0; rank < region_.ranks(); ++rank) {
    if (rank != rank_ && has_died(rank)) futex_wake_all(&region_.line(rank).life_word());
  }
}

}  // namespace ddprun::shared_memory
