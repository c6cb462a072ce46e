// Decides whether this node's workers hang, from samples of their collectives and processes. Pure:
// the caller takes the samples, supplies the time and acts on the findings.
//
// A worker that is stopped by a signal while others are not hangs, whatever program it is. Other
// hangs are found in collectives of the worker runtime: some ranks wait, and no call starts or
// ends. In programs without these calls, such as PyTorch's, a rank waits while its main thread
// sleeps in the code of a library for collectives, and the run waits while at least half of the
// ranks sleep, or, if its ranks call heartbeat(), while no rank does. The waits so far show how
// long is unusual. A long evaluation looks like an endless loop, and a wait for a service like a
// deadlock, so automatic limits only suspect such ranks. If all ranks of the run wait in
// collectives, no rank is late, but with a limit set by the user all ranks hang.
#pragma once

#include "launcher/plan/launch_plan.hpp"
#include "launcher/process/worker_sample.hpp"
#include "rendezvous/base/run_clock.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <vector>

namespace ddprun {

/// What a rank does while others wait for it.
enum class HangCondition {
  stopped,        ///< by a signal
  idle,           ///< sleeps; has not run during the wait
  blocked,        ///< idle, and waits for a lock or another process
  terminal,       ///< idle, but may wait for input from a terminal
  device,         ///< uninterruptible sleep
  busy,           ///< uses CPU time
  in_collective,  ///< waits in a collective, like all ranks of the run
};

struct HungRank {
  int rank = 0;
  HangCondition condition = HangCondition::idle;

  bool operator==(const HungRank&) const = default;
};

struct HangFinding {
  enum class Kind {
    suspected,  ///< unusual, but the workers may continue
    certain,    ///< the workers will not continue
    resumed,    ///< a suspected hang has ended
  };
  Kind kind = Kind::suspected;
  std::chrono::milliseconds time{0};  ///< duration of the hang
  std::vector<HungRank> ranks{};      ///< the cause; empty: unknown, or on another node

  bool operator==(const HangFinding&) const = default;
};

class HangDetector {
 public:
  using Time = RunClock::time_point;
  using Milliseconds = std::chrono::milliseconds;

  /// Time between samples.
  static constexpr Milliseconds kPeriod{1'000};

  /// Returns the ranks of this node for which others wait in a collective.
  using LateRanks = std::function<std::vector<int>()>;

  struct Settings {
    HangTimeout timeout{};
    int other_ranks = 0;     ///< workers on other nodes
    int terminal_rank = -1;  ///< rank that reads a terminal, where it may wait for its user
  };

  explicit HangDetector(const Settings& settings) : settings_(settings) {}

  /// Takes a sample of all live workers of this node. Returns a finding when a hang is first
  /// suspected, becomes certain, or has ended. `late_ranks` is called only after long waits.
  std::optional<HangFinding> observe(Time now, const std::vector<WorkerSample>& workers,
                                     const LateRanks& late_ranks);

  /// Returns the longest wait in a collective of ranks of the last sample, `workers`; 0 if shorter
  /// than some seconds.
  Milliseconds ranks_wait(const std::vector<WorkerSample>& workers) const;

  /// Returns true if all these ranks wait so.
  bool are_all_waiting() const { return are_all_waiting_; }

  /// Sets the longest such wait of ranks on other nodes, 0: none, and whether all of these wait.
  void set_others_wait(Milliseconds time, bool are_all_waiting) {
    others_wait_ = time;
    are_others_waiting_ = are_all_waiting;
  }

  /// Returns true if the next sample should contain the details.
  bool needs_details() const;

 private:
  struct History {
    pid_t pid = 0;
    std::uint64_t inspections = 0;  ///< of the last sample
    int excused = 0;                ///< next samples in which it may run because of an inspection
    bool is_in_collective = false;  ///< it waits in a library of collectives
    std::optional<std::chrono::nanoseconds> main_time{};
    std::optional<std::chrono::nanoseconds> run_time{};
    std::optional<Milliseconds> stopped{};  ///< time in this state; nullopt: not in it
    Milliseconds idle{0};                   ///< time without a run
    Milliseconds awake{0};                  ///< time since it was last asleep; see is_asleep()
  };

  bool is_fixed() const { return settings_.timeout.mode == HangTimeout::Mode::fixed; }
  Milliseconds elapsed_since_last(Time now);
  void note_processes(const std::vector<WorkerSample>& workers, Milliseconds elapsed);
  bool is_idle(const WorkerSample& worker, const History& history, Milliseconds elapsed) const;
  void note_first_call();
  bool note_calls(const std::vector<WorkerSample>& workers, Milliseconds elapsed);
  bool note_heartbeats(const std::vector<WorkerSample>& workers, Milliseconds elapsed);
  bool note_shared_idle_time(const std::vector<WorkerSample>& workers);
  void end_wait(Milliseconds wait);
  void note_common_wait(const std::vector<WorkerSample>& workers, Milliseconds elapsed);
  bool has_ended(const HangFinding& finding, const std::vector<WorkerSample>& workers,
                 bool has_progressed) const;
  std::optional<HangFinding> find_stopped(const std::vector<WorkerSample>& workers) const;
  std::optional<HangFinding> find_late(const std::vector<WorkerSample>& workers,
                                       const LateRanks& late_ranks) const;
  std::vector<HungRank> late_in_calls(const std::vector<WorkerSample>& workers,
                                      const LateRanks& late_ranks) const;
  std::vector<HungRank> late_by_processes(const std::vector<WorkerSample>& workers) const;
  bool is_asleep(const WorkerSample& worker) const;
  bool has_just_resumed(const WorkerSample& worker) const;
  HangCondition condition_of(const WorkerSample& worker) const;
  Milliseconds inactive_time(const std::vector<HungRank>& ranks) const;
  bool are_waits_known() const;
  Milliseconds limit(bool are_inactive) const;

  Settings settings_;
  std::optional<Time> last_sample_;
  std::map<int, History> histories_;  ///< by rank
  bool has_details_ = false;          ///< in the current sample
  bool has_calls_ = false;            ///< of collectives of the worker runtime, now or before
  std::uint64_t calls_ = 0;           ///< sum of the last sample; 0: no live group
  std::uint64_t heartbeats_ = 0;      ///< sum of the last sample; 0: none yet
  int changes_ = 0;                   ///< samples with progress
  Milliseconds quiet_{0};             ///< since the last progress
  Milliseconds longest_quiet_{0};     ///< longest wait that ended with progress
  Milliseconds others_wait_{0};       ///< longest wait of ranks on other nodes; 0: none
  bool are_all_waiting_ = false;      ///< see are_all_waiting()
  bool are_others_waiting_ = false;   ///< the same of ranks on other nodes
  Milliseconds common_wait_{0};       ///< time for which all ranks of the run have waited
  std::optional<HangFinding> open_;   ///< the last finding; nullopt after its end
};

}  // namespace ddprun
