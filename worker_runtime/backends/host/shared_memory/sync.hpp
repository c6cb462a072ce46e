// Waits of ranks for each other: a rank spins briefly if every rank has a core, yields, and then
// sleeps in the kernel. A wait ends when the awaited counter reaches its target, when the deadline
// passes, and immediately when an awaited rank dies or leaves, the group fails, or the agent ends
// the attempt.
//
// A rank's death is signalled by a robust mutex that its communication thread holds until it ends:
// the kernel marks the mutex before it tears down the dead process' memory, and wakes one of the
// threads that sleep on it. Sleeping ranks therefore watch the mutexes of all ranks. The kernel
// wakes only one sleeper, so a rank that wakes, for any reason, wakes the other sleepers on the
// mutexes of dead ranks. If several ranks are killed, the woken rank may be dying itself; the
// others then detect the death when they check all ranks, every kDeathCheckPeriod.
//
// The kernel limits a sleep to 128 words. In a group of more than kRanksWatchedMax ranks a sleeping
// rank watches the awaited rank and the kNeighboursWatched ranks after its own. So each rank is
// watched by that many others, and the first of these to detect its death fails the group. If none
// of them sleeps, the periodic check detects the death.
#pragma once

#include "rendezvous/base/futex.hpp"
#include "rendezvous/control/control_page.hpp"
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

/// Reserves words for the counter, the failure, the end of the attempt and the stop.
inline constexpr int kRanksWatchedMax = static_cast<int>(FutexSet::kWordsMax) - 8;
/// Each watched rank adds about 0.2 us to a sleep. With this number, nearly always at least one of
/// the watching ranks sleeps while a rank is awaited.
inline constexpr int kNeighboursWatched = 16;
/// Interval of the checks; those of 1024 sleeping ranks use a small part of a core.
inline constexpr auto kDeathCheckPeriod = std::chrono::seconds(1);

/// Throws the exception of `failure` on rank `own_rank` of all workers.
[[noreturn]] void throw_failure(const FailureRecord& failure, int own_rank);

class Sync {
 public:
  /// `page`: the agent's control page; without it only ranks can end a wait. `names`: names of the
  /// region's ranks.
  Sync(const Region& region, int rank, std::optional<control::ControlPage> page,
       RankNames names = {}, Deadline::Duration death_check_period = kDeathCheckPeriod);

  /// From this call on, the end of the calling thread counts as the death of this rank.
  void hold_life();
  /// Reverts hold_life(), so that the end of the thread does not count as a death. Must be called
  /// by the same thread. Does nothing without hold_life().
  void release_life() noexcept;

  /// Publishes the cores on which the calling thread may run. Call it before this rank's first
  /// publish().
  void publish_cores() const;
  /// Reads the cores of all ranks after they have been published. Ranks spin only if there is a
  /// core for each. The affinity of one rank does not show that: launchers may bind each rank to
  /// one core.
  void read_cores();
  bool spins() const { return spins_ > 0; }

  void publish(Counter& counter, std::uint64_t value) const;

  /// Waits until `counter`, written by rank `writer`, reaches `target`. Returns false if the
  /// deadline passes first. Throws PeerFailed if a rank dies or the group fails.
  bool wait(Counter& counter, std::uint64_t target, int writer, Deadline deadline) const;

  /// Like wait(), for the counter `counter_of(rank)` of each rank. Ends if a rank ends below the
  /// target. Returns a rank that has not reached the target at the deadline, if any.
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

  /// Fails the group on all ranks, unless it has failed. `rank`: the cause, among all workers.
  /// Thread-safe.
  void fail(FailureKind kind, int rank, const std::string& text) const noexcept;

  /// Calls fail(), then throws the first failure of the group.
  [[noreturn]] void fail_and_throw(FailureKind kind, int rank, const std::string& text) const;

  /// Throws if the group has failed.
  void check() const;
  /// Like check(), and fails the group if any rank has died.
  void check_all() const;

  /// Blocks until check_all() may throw, or until `stop` is set and woken. For a dedicated thread,
  /// on behalf of a thread that cannot wait on futexes.
  void await_failure(const Word& stop) const;

  /// Waits until the first failure is recorded, if a rank has begun to record one. Only for ranks
  /// of one process, since another process may be stopped meanwhile.
  void await_record() const noexcept;

  /// Returns the first failure of the group, if any.
  std::optional<FailureRecord> failure() const;

  /// Names of the region's ranks.
  const RankNames& names() const { return names_; }

 private:
  struct Awaited {
    Counter& counter;
    std::uint64_t target;
    int writer;  ///< rank that writes the counter
    /// Throws if the target can no longer be reached. Holds a reference, so that it does not
    /// allocate.
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
  void wake_other_watchers() const noexcept;

  const Region& region_;
  int rank_;
  std::optional<control::ControlPage> page_;
  RankNames names_;
  Deadline::Duration death_check_period_;
  int spins_ = 0;
  bool holds_life_ = false;
};

}  // namespace ddprun::shared_memory
