// A node's workers and a hang detector, for tests of its findings.
#pragma once

#include "launcher/agent/hang_detector.hpp"

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace ddprun::test {

using namespace std::chrono_literals;

inline constexpr HangTimeout kAuto{};

constexpr HangTimeout fixed(std::chrono::milliseconds time) {
  return {.mode = HangTimeout::Mode::fixed, .time = time};
}

inline std::string text_of(const HangFinding& finding) {
  static const std::vector<std::string> kinds = {"suspected", "certain", "resumed"};
  static const std::vector<std::string> conditions = {"stopped", "idle", "blocked",   "terminal",
                                                      "device",  "busy", "collective"};
  std::string text = kinds.at(static_cast<std::size_t>(finding.kind));
  for (const auto& rank : finding.ranks) {
    text += " " + std::to_string(rank.rank) + ":" +
            conditions.at(static_cast<std::size_t>(rank.condition));
  }
  return text + " after " + std::to_string(finding.time / 1s) + " s";
}

/// Workers of this node and a detector, which observes them once a second.
class Node {
 public:
  explicit Node(HangTimeout timeout, int ranks = 2, int other_ranks = 0, int terminal_rank = -1)
      : detector_(
            {.timeout = timeout, .other_ranks = other_ranks, .terminal_rank = terminal_rank}) {
    for (int rank = 0; rank < ranks; ++rank) {
      WorkerSample sample{.rank = rank};
      sample.state = 'S';
      sample.run_time = 1s;
      workers.push_back(sample);
    }
  }

  /// Adds the CPU time of the ranks that are in state R and observes. Returns the findings.
  std::string pass(std::chrono::seconds time) {
    std::string found;
    for (auto second = 0s; second < time; ++second) {
      now_ += 1s;
      if (do_others_wait_) detector_.set_others_wait(others_wait_ += 1s, are_all_others_waiting_);
      for (auto& worker : workers) {
        if (worker.state != 'R') continue;
        if (worker.run_time) *worker.run_time += 90ms;
        if (worker.main_time) *worker.main_time += 90ms;
      }
      const auto finding = observe();
      if (finding) found += (found.empty() ? "" : ", ") + text_of(*finding);
    }
    return found;
  }

  std::optional<HangFinding> observe() {
    return detector_.observe(now_, workers, [this] { return late; });
  }

  /// Ends the calls of all ranks and starts new ones. Afterwards rank 0 waits for the others, the
  /// last of which is late.
  std::string step(int count = 1, std::chrono::seconds time = 1s) {
    std::string found;
    for (int i = 0; i < count; ++i) {
      for (auto& worker : workers) worker.activity.calls += 2;
      found += pass(time);
    }
    wait_for_last();
    return found;
  }

  void wait_for_last() {
    for (auto& worker : workers) worker.activity.is_in_call = true;
    workers.back().activity.is_in_call = false;
    late = {workers.back().rank};
  }

  void jump(std::chrono::seconds time) { now_ += time; }

  /// Some or all ranks of other nodes begin or end to wait.
  void set_others_waiting(bool are_waiting, bool are_all_waiting = false) {
    do_others_wait_ = are_waiting;
    are_all_others_waiting_ = are_all_waiting;
    others_wait_ = 0s;
    detector_.set_others_wait(others_wait_, are_all_waiting);
  }
  bool are_all_waiting() const { return detector_.are_all_waiting(); }
  std::chrono::milliseconds ranks_wait() const { return detector_.ranks_wait(workers); }

  std::vector<WorkerSample> workers;
  std::vector<int> late;

 private:
  HangDetector detector_;
  HangDetector::Time now_{1h};
  bool do_others_wait_ = false;
  bool are_all_others_waiting_ = false;
  std::chrono::seconds others_wait_{0};
};

}  // namespace ddprun::test
