// Findings of the detector of slow ranks for given samples.
#include "launcher/agent/slow_ranks.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace slow_ranks_test {

using namespace ddprun;
using namespace std::chrono_literals;

namespace {

using Phase = SlowRank::Phase;

std::string text_of(const SlowRank& slow) {
  static const std::vector<std::string> phases = {"unknown", "computes", "queued", "sleeps"};
  if (!slow.is_slow) return std::to_string(slow.rank) + " recovered";
  return std::to_string(slow.rank) + " " + std::to_string(std::lround(100 * slow.factor)) + " % " +
         phases.at(static_cast<std::size_t>(slow.phase)) + " after " +
         std::to_string(slow.time / 1s) + " s";
}

/// Ranks of a node that meet in a collective after each step, observed once a second.
class Node {
 public:
  /// `ranks`: duration of each rank's work in a step.
  explicit Node(std::vector<std::chrono::milliseconds> ranks, int other_ranks = 0)
      : times(std::move(ranks)), detector(other_ranks), workers(times.size()) {
    for (std::size_t i = 0; i < workers.size(); ++i) {
      workers[i].rank = static_cast<int>(i);
      workers[i].pid = 100 + static_cast<pid_t>(i);
      workers[i].state = 'S';
      workers[i].main_time = 0ns;
      workers[i].queued_time = 0ns;
    }
  }

  /// Runs steps for this time and returns the findings.
  std::string pass(std::chrono::seconds time) {
    std::string found;
    for (const auto end = now_ + time; now_ < end; step()) {
      const auto step_end = now_ + step_time();
      for (; next_sample_ < std::min(step_end, end); next_sample_ += 1s) found += observe();
    }
    return found;
  }

  std::string observe() {
    std::string found;
    for (const auto& slow : detector.observe(next_sample_, workers))
      found += (found.empty() ? "" : ", ") + text_of(slow);
    return found;
  }

  void jump(std::chrono::seconds time) {
    now_ += time;
    next_sample_ += time;
  }

  std::vector<std::chrono::milliseconds> times;
  unsigned calls = 1;                ///< in a step
  double run_part = 1;               ///< CPU time, as a part of the work
  std::vector<double> run_parts;     ///< the same by rank; empty: run_part
  std::vector<double> queued_parts;  ///< the same for the time without a CPU; empty: 0
  SlowRankDetector detector;
  std::vector<WorkerSample> workers;
  std::chrono::milliseconds step_min{0};  ///< by ranks on other nodes

 private:
  std::chrono::milliseconds step_time() const {
    return std::max(step_min, *std::max_element(times.begin(), times.end()));
  }

  /// The waits for all calls of a step end together.
  void step() {
    const auto time = step_time();
    now_ += time;
    for (std::size_t i = 0; i < workers.size(); ++i) {
      auto& worker = workers[i];
      worker.activity.waits += calls;
      worker.activity.waited += time - times[i];
      const auto part_of_work = [&](double part) {
        return std::chrono::round<std::chrono::nanoseconds>(part * times[i]);
      };
      *worker.main_time += part_of_work(i < run_parts.size() ? run_parts[i] : run_part);
      if (worker.queued_time)
        *worker.queued_time += part_of_work(i < queued_parts.size() ? queued_parts[i] : 0);
    }
  }

  SlowRankDetector::Time now_{1h};
  SlowRankDetector::Time next_sample_{1h};
};

}  // namespace

TEST_SUITE("slow ranks") {
  TEST_CASE("slow ranks: a rank is named once when it has been slow for 20 s and 20 calls") {
    Node node({100ms, 130ms, 100ms, 100ms});
    CHECK(node.pass(19s) == "");
    CHECK(node.pass(3600s) == "1 130 % computes after 20 s");
    Node long_steps({1000ms, 1000ms, 1300ms});
    CHECK(long_steps.pass(20s) == "");
    CHECK(long_steps.pass(3600s) == "2 131 % computes after 28 s");
  }

  TEST_CASE("slow ranks: ranks below 1.2 times the median are not named") {
    Node node({100ms, 118ms, 100ms, 95ms});
    CHECK(node.pass(3600s) == "");
  }

  TEST_CASE("slow ranks: of two ranks the slower one is named") {
    Node node({130ms, 100ms});
    CHECK(node.pass(60s) == "0 130 % computes after 20 s");
  }

  TEST_CASE("slow ranks: a single rank is compared with nothing") {
    Node node({130ms});
    CHECK(node.pass(60s) == "");
    CHECK(node.detector.work_share() == 1000);
  }

  TEST_CASE("slow ranks: a rank that is fast again has recovered, and may be named again") {
    Node node({100ms, 130ms, 100ms});
    CHECK(node.pass(60s) == "1 130 % computes after 20 s");
    node.times[1] = 100ms;
    CHECK(node.pass(60s) == "1 recovered");
    node.times[1] = 200ms;
    CHECK(node.pass(60s) == "1 188 % computes after 20 s");
  }

  TEST_CASE("slow ranks: the phase is that of the excess time") {
    Node queued({100ms, 130ms, 100ms});
    queued.run_parts = {1, 0.77, 1};
    queued.queued_parts = {0, 0.23, 0};
    CHECK(queued.pass(60s) == "1 130 % queued after 20 s");
    Node all_queued({100ms, 130ms, 100ms});
    all_queued.run_part = 0.75;
    all_queued.queued_parts = {0.25, 0.25, 0.25};
    CHECK(all_queued.pass(60s) == "1 130 % computes after 20 s");
    Node sleeps({100ms, 130ms, 100ms});
    sleeps.run_parts = {1, 0.77, 1};
    CHECK(sleeps.pass(60s) == "1 130 % sleeps after 20 s");
    Node all_sleep({100ms, 130ms, 100ms});
    all_sleep.run_part = 0.7;
    CHECK(all_sleep.pass(60s) == "1 130 % computes after 20 s");
    Node other_thread({100ms, 130ms, 100ms});
    other_thread.run_part = 0.001;
    CHECK(other_thread.pass(60s) == "1 130 % unknown after 20 s");
    Node unknown({100ms, 130ms, 100ms});
    for (auto& worker : unknown.workers) worker.queued_time.reset();
    CHECK(unknown.pass(60s) == "1 130 % unknown after 20 s");
  }

  TEST_CASE("slow ranks: steps with many calls and of any duration are compared") {
    for (const auto time : {10ms, 300ms, 900ms, 1100ms, 1500ms, 2000ms, 3500ms, 15000ms}) {
      for (const unsigned calls : {1U, 30U}) {
        CAPTURE(time.count());
        CAPTURE(calls);
        Node node({time, 13 * time / 10, time, time});
        node.calls = calls;
        CHECK(node.pass(3600s).starts_with("1 1"));
        Node equal({time, time, time, time});
        equal.calls = calls;
        CHECK(equal.pass(3600s) == "");
      }
    }
  }

  TEST_CASE("slow ranks: a difference below a twentieth of the time is ignored") {
    Node node({10ms, 20ms, 10ms});
    node.step_min = 250ms;  // a long transfer
    CHECK(node.pass(3600s) == "");
    node.step_min = 150ms;
    CHECK(node.pass(60s).starts_with("1 2"));
  }

  TEST_CASE("slow ranks: a rank whose threads wait at the same time is not judged") {
    Node node({100ms, 130ms, 100ms});
    for (int i = 0; i < 100; ++i) {
      for (auto& worker : node.workers) worker.activity.waited += 900ms;
      CHECK(node.pass(1s) == "");
    }
  }

  TEST_CASE(
      "slow ranks: a worker that ends or is replaced or writes a counter ends the observation") {
    struct Row {
      const char* name;
      void (*change)(std::vector<WorkerSample>& workers);
    };
    for (const auto& row : {Row{"pid", [](auto& workers) { workers[0].pid = 7; }},
                            Row{"waits", [](auto& workers) { workers[0].activity.waits = 0; }},
                            Row{"waited", [](auto& workers) { workers[0].activity.waited = 0ns; }},
                            Row{"overflow",
                                [](auto& workers) {
                                  workers[0].activity.waited = std::chrono::nanoseconds::max() / 2;
                                }},
                            Row{"end", [](auto& workers) { workers.erase(workers.begin()); }}}) {
      CAPTURE(row.name);
      Node node({100ms, 100ms, 130ms});
      CHECK(node.pass(19s) == "");
      row.change(node.workers);
      CHECK(node.pass(19s) == "");
    }
  }

  TEST_CASE("slow ranks: a long save or evaluation on one rank does not make it slow") {
    Node node({100ms, 100ms, 100ms});
    std::string found;
    for (int i = 0; i < 50; ++i) {
      found += node.pass(20s);
      node.times[0] = 30s;
      found += node.pass(1s);
      node.times[0] = 100ms;
    }
    CHECK(found == "");
  }

  TEST_CASE("slow ranks: ranks whose times vary are not named") {
    std::mt19937 random(1);
    std::uniform_int_distribution<int> any(85, 145);
    Node node({100ms, 100ms, 100ms, 100ms});
    std::string found;
    for (int i = 0; i < 3600; ++i) {
      for (auto& time : node.times) time = std::chrono::milliseconds(any(random));
      found += node.pass(1s);
    }
    CHECK(found == "");
  }

  TEST_CASE("slow ranks: a suspended, stopped or traced run starts a new observation") {
    Node node({100ms, 130ms});
    CHECK(node.pass(19s) == "");
    node.jump(60s);
    CHECK(node.pass(19s) == "");
    node.workers[0].state = 'T';
    CHECK(node.pass(1s) == "");
    node.workers[0].state = 'S';
    CHECK(node.pass(19s) == "");
    node.workers[0].is_traced = true;
    CHECK(node.pass(100s) == "");
    node.workers[0].is_traced = false;
    CHECK(node.pass(19s) == "");
    CHECK(node.pass(60s) == "1 130 % computes after 20 s");
  }

  TEST_CASE("slow ranks: programs without calls are not judged") {
    Node node({100ms, 130ms});
    for (int i = 0; i < 100; ++i) {
      node.jump(1s);
      CHECK(node.observe() == "");
    }
    CHECK(node.detector.work_share() == -1);
  }

  TEST_CASE("slow ranks: a node's rank is compared with the ranks of other nodes") {
    Node slow({130ms}, 2);
    CHECK(slow.pass(60s) == "");  // the others are not known yet
    CHECK(slow.detector.work_share() == 1000);
    slow.detector.set_run_share(769);
    CHECK(slow.pass(60s) == "0 130 % computes after 20 s");
    Node fast({100ms}, 2);
    fast.step_min = 130ms;
    fast.detector.set_run_share(769);
    CHECK(fast.pass(60s) == "");
    CHECK(fast.detector.work_share() == doctest::Approx(769).epsilon(0.02));
  }

  TEST_CASE("slow ranks: both ranks of a slow node are named") {
    Node node({130ms, 130ms}, 4);
    node.detector.set_run_share(769);
    CHECK(node.pass(60s) == "0 130 % computes after 20 s, 1 130 % computes after 20 s");
  }
}

}  // namespace slow_ranks_test
