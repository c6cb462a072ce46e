// How ranks wait for each other: spin for a moment where every rank has a core, yield, then sleep
// in the kernel. A wait ends when the awaited counter is there, when the deadline passes, and at
// once when an awaited rank dies or leaves, when the group has failed or when the agent ends the
// attempt.
//
// A rank's death is signalled by a robust mutex that its communication thread holds for life: the
// kernel marks it before it tears down the dead process' memory, and wakes one of the threads that
// sleep on it. Sleeping ranks therefore watch the lives of all ranks, and a rank that wakes, for
// whatever reason, wakes the others that sleep on the lives of dead ranks: the kernel wakes only
// one.
//
// The kernel limits a sleep to 128 words. In a group of more than kRanksWatchedMax ranks a sleeping
// rank watches the awaited rank and the kNeighboursWatched ranks after its own. So each rank is
// watched by that many others, and the first of these to find its death fails the group. If none of
// them sleeps, the death is found by the check of all ranks that each sleeping rank makes every
// kDeathCheckPeriod.
#pragma once

#include "rendezvous/control/control_page.hpp"
#include "worker_runtime/backends/host/shared_memory/futex.hpp"
#include "worker_runtime/backends/host/shared_memory/region.hpp"
#include "worker_runtime/backends/rank_names.hpp"
#include <ddprun/deadline.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace ddprun::shared_memory {

/// A Failure as a value.
struct FailureRecord {
  FailureKind kind = FailureKind::none;
  int rank = -1;  ///< among all workers
  std::string text;
};

/// Leaves room for the words that are no lives: counter, failure, end of the attempt or stop.
inline constexpr int kRanksWatchedMax = static_cast<int>(FutexSet::kWordsMax) - 8;
/// Each costs every sleep about 0.2 us; one of so many nearly always sleeps when a rank is awaited.
inline constexpr int kNeighboursWatched = 16;
/// Long enough that the checks of 1024 sleeping ranks take little of a core.
inline constexpr auto kDeathCheckPeriod = std::chrono::seconds(1);

/// The exception that `failure` means to rank `own_rank` of all workers.
[[noreturn]] void throw_failure(const FailureRecord& failure, int own_rank);

class Sync {
 public:
  /// `page` may be empty: then nobody but the ranks can end a wait. `names` are those of the
  /// region's ranks.
  Sync(const Region& region, int rank, std::optional<control::ControlPage> page,
       RankNames names = {}, Deadline::Duration death_check_period = kDeathCheckPeriod);

  /// From now on the end of the calling thread is the death of this rank.
  void hold_life();
  /// By the same thread: this rank's end is not a death. Nothing if it does not hold the life.
  void release_life() noexcept;

  /// Tells the others on which cores the calling thread may run, before this rank's first
  /// publish().
  void tell_cores() const;
  /// Once all have told: to spin helps only if there is a core for every rank. Launchers that bind
  /// each rank to a core of its own leave one to each, so one rank's own view says nothing.
  void learn_cores();
  bool spins() const { return spins_ > 0; }

  void publish(Counter& counter, std::uint64_t value) const;

  /// False if the deadline passed before `counter`, which `writer` makes grow, reached `target`.
  /// Throws PeerFailed and the like as said above.
  bool wait(Counter& counter, std::uint64_t target, int writer, Deadline deadline) const;

  /// wait() for a counter of each rank, which `counter_of(rank)` returns. A rank that ends below
  /// the target ends it, whichever is being waited for. Returns the rank that was late, if one was.
  template <typename CounterOf>
  std::optional<int> wait_all(const CounterOf& counter_of, std::uint64_t target,
                              Deadline deadline) const {
    for (int rank = 0; rank < region_.ranks(); ++rank) {
      Counter& counter = counter_of(rank);
      if (has_reached(counter, target)) continue;
      const auto check = [&] { check_ranks(counter_of, target); };
      if (!await({counter, target, rank, std::cref(check)}, deadline)) return rank;
    }
    return std::nullopt;
  }

  /// Ends the group for all ranks, unless another rank has already. `rank` is the one to blame,
  /// among all workers. Any thread.
  void fail(FailureKind kind, int rank, const std::string& text) const noexcept;

  /// fail(), then throws what the group failed with.
  [[noreturn]] void fail_and_throw(FailureKind kind, int rank, const std::string& text) const;

  /// Throws if the group has failed.
  void check() const;
  /// check(), and a rank that has died fails the group, whether it was awaited or not.
  void check_all() const;

  /// Sleeps until check_all() may have something to throw, or until `stop` is no longer 0 and was
  /// woken. For a thread of its own, on behalf of a thread that cannot sleep on futexes.
  void await_failure(const Word& stop) const;

  /// What the group failed with; nothing if it has not.
  std::optional<FailureRecord> failure() const;

  /// What the region's ranks are called.
  const RankNames& names() const { return names_; }

 private:
  struct Awaited {
    Counter& counter;
    std::uint64_t target;
    int writer;  ///< of the counter
    /// Throws if it cannot come about any more. Made from a reference, which takes no memory.
    std::function<void()> check;
  };

  static bool has_reached(const Counter& counter, std::uint64_t target) {
    return counter.value.load(std::memory_order_acquire) >= target;
  }

  template <typename CounterOf>
  void check_ranks(const CounterOf& counter_of, std::uint64_t target) const {
    check();
    for (int rank = 0; rank < region_.ranks(); ++rank) check_writer(counter_of(rank), target, rank);
  }

  bool watches_all() const { return region_.ranks() <= kRanksWatchedMax; }
  bool has_died(int rank) const;
  bool any_has_died() const;
  void check_writer(const Counter& counter, std::uint64_t target, int writer) const;
  bool await(const Awaited& awaited, Deadline deadline) const;
  void sleep(const Awaited& awaited, Deadline deadline) const;
  void add_life(FutexSet& set, int rank) const;
  void add_lives(FutexSet& set, int awaited) const;
  void sleep(const FutexSet& set, Deadline deadline) const;
  void pass_on_deaths() const noexcept;

  const Region& region_;
  int rank_;
  std::optional<control::ControlPage> page_;
  RankNames names_;
  Deadline::Duration death_check_period_;
  int spins_ = 0;
  bool holds_life_ = false;
};

}  // namespace ddprun::shared_memory
