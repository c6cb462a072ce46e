// Findings of the hang detector for given samples.
#include "launcher/agent/hang_detector.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <functional>
#include <random>
#include <string>
#include <vector>

namespace hang_detector_test {

using namespace ddprun;
using namespace std::chrono_literals;

namespace {

constexpr HangTimeout kAuto{};

constexpr HangTimeout fixed(std::chrono::milliseconds time) {
  return {.mode = HangTimeout::Mode::fixed, .time = time};
}

std::string text_of(const HangFinding& finding) {
  static const std::vector<std::string> kinds = {"suspected", "certain", "resumed"};
  static const std::vector<std::string> conditions = {"stopped", "idle", "terminal", "device",
                                                      "busy"};
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

  void set_others_waiting(bool are_waiting) { detector_.set_others_waiting(are_waiting); }
  bool are_ranks_waiting() const { return detector_.are_ranks_waiting(workers); }

  std::vector<WorkerSample> workers;
  std::vector<int> late;

 private:
  HangDetector detector_;
  HangDetector::Time now_{1h};
};

/// Returns a node whose workers do not use the worker runtime and run.
Node node_without_calls(HangTimeout timeout, int ranks, int other_ranks = 0) {
  Node node(timeout, ranks, other_ranks);
  for (auto& worker : node.workers) {
    worker.state = 'R';
    worker.main_time = 1s;
  }
  return node;
}

/// Lets the main threads of the ranks sleep, given by a character for each: in a collective of a
/// library (c), in a lock (l), for a peer (p), for something else (o); ' ' if the rank runs.
void sleep_in(Node& node, const std::string& waits) {
  for (std::size_t rank = 0; rank < waits.size(); ++rank) {
    WorkerSample& worker = node.workers.at(rank);
    worker.state = waits[rank] == ' ' ? 'R' : 'S';
    worker.wait_cause = waits[rank] == 'p'   ? WaitCause::peer
                        : waits[rank] == 'o' ? WaitCause::other
                                             : WaitCause::lock;
    worker.waiting_code = waits[rank] == 'c' ? "/opt/lib/libtorch_cpu.so" : "/usr/bin/python3";
  }
}

}  // namespace

TEST_SUITE("hang detector") {
  TEST_CASE("hang detector: a worker that is stopped for 5 s hangs whatever program it is") {
    Node node(kAuto);
    CHECK(node.pass(3s) == "");
    node.workers[1].state = 'T';
    CHECK(node.pass(5s) == "");
    CHECK(node.pass(60s) == "certain 1:stopped after 5 s");
  }

  TEST_CASE("hang detector: a stopped worker that continues is reported once") {
    Node node(kAuto);
    CHECK(node.pass(1s) == "");
    node.workers[1].state = 'T';
    CHECK(node.pass(8s) == "certain 1:stopped after 5 s");
    node.workers[1].state = 'R';
    CHECK(node.pass(60s) == "resumed 1:stopped after 8 s");
  }

  TEST_CASE("hang detector: a run whose workers are all stopped does not hang") {
    Node node(kAuto);
    for (auto& worker : node.workers) worker.state = 'T';
    CHECK(node.pass(1000s) == "");
  }

  TEST_CASE("hang detector: a node whose workers are all stopped hangs if other nodes run") {
    Node node(kAuto, 2, 2);
    CHECK(node.pass(1s) == "");
    for (auto& worker : node.workers) worker.state = 'T';
    CHECK(node.pass(1000s) == "certain 0:stopped 1:stopped after 5 s");
  }

  TEST_CASE("hang detector: an idle rank is suspected after 30 s and never certain to hang") {
    Node node(kAuto);
    node.step(30);
    CHECK(node.pass(29s) == "");
    CHECK(node.pass(5000s) == "suspected 1:idle after 30 s");
  }

  TEST_CASE("hang detector: a rank that runs is suspected after 300 s and never certain to hang") {
    Node node(kAuto);
    node.step(30);
    node.workers[1].state = 'R';
    CHECK(node.pass(2000s) == "suspected 1:busy after 300 s");
  }

  TEST_CASE("hang detector: a rank that runs for a moment each 20 s is never certain to hang") {
    Node node(kAuto);
    node.step(30);
    std::string found;
    for (int i = 0; i < 50; ++i) {
      found += node.pass(19s);
      *node.workers[1].run_time += 1ns;
      found += node.pass(1s);
    }
    CHECK(found == "suspected 1:busy after 300 s");
  }

  TEST_CASE("hang detector: a rank whose run time is unknown is never certain to hang") {
    Node node(kAuto);
    node.step(30);
    node.workers[1].run_time.reset();
    CHECK(node.pass(2000s) == "suspected 1:busy after 300 s");
  }

  TEST_CASE("hang detector: a rank that waits for a device is never certain to hang") {
    Node node(kAuto);
    node.step(30);
    node.workers[1].state = 'D';
    CHECK(node.pass(2000s) == "suspected 1:device after 300 s");
  }

  TEST_CASE("hang detector: a rank at a terminal may wait for its user") {
    Node node(kAuto, 2, 0, 1);
    node.step(30);
    CHECK(node.pass(2000s) == "suspected 1:terminal after 300 s");
  }

  TEST_CASE("hang detector: the first steps may take 300 s") {
    Node node(kAuto);
    node.step(5);
    CHECK(node.pass(299s) == "");
    CHECK(node.pass(1s) == "suspected 1:idle after 300 s");
  }

  TEST_CASE("hang detector: waits that have ended raise the automatic limit tenfold") {
    Node node(kAuto);
    node.step(30);
    CHECK(node.pass(20s) == "");
    node.step();
    CHECK(node.pass(199s) == "");
    CHECK(node.pass(800s) == "suspected 1:idle after 200 s");
  }

  TEST_CASE("hang detector: progress ends a suspicion") {
    Node node(kAuto);
    node.step(30);
    CHECK(node.pass(40s) == "suspected 1:idle after 30 s");
    CHECK(node.step() == "resumed 1:idle after 41 s");
  }

  TEST_CASE("hang detector: ranks that all compute do not hang") {
    Node node(kAuto);
    node.step(30);
    for (auto& worker : node.workers) worker.activity.is_in_call = false;
    CHECK(node.pass(5000s) == "");
  }

  TEST_CASE("hang detector: without a late rank the cause is unknown and not certain") {
    Node node(kAuto);
    node.step(30);
    for (auto& worker : node.workers) worker.activity.is_in_call = true;
    node.late.clear();
    CHECK(node.pass(2000s) == "suspected after 300 s");
  }

  TEST_CASE("hang detector: a debugger at any worker suspends the detection") {
    Node node(kAuto);
    node.step(30);
    CHECK(node.pass(20s) == "");
    node.workers[0].is_traced = true;
    CHECK(node.pass(500s) == "");
    node.workers[0].is_traced = false;
    CHECK(node.pass(9s) == "");
    CHECK(node.pass(1s) == "suspected 1:idle after 30 s");
  }

  TEST_CASE("hang detector: a suspension of agent and workers discards the times before it") {
    Node node(kAuto);
    node.step(30);
    node.workers[1].state = 'T';
    CHECK(node.pass(5s) == "");
    node.jump(3600s);
    CHECK(node.pass(5s) == "");
    CHECK(node.pass(10s) == "certain 1:stopped after 5 s");
  }

  TEST_CASE("hang detector: workers that are stopped and continued in turn do not hang") {
    Node node(kAuto, 4);
    for (auto& worker : node.workers) {
      CHECK(node.pass(1s) == "");
      worker.state = 'T';
    }
    CHECK(node.pass(3600s) == "");
    for (auto& worker : node.workers) {
      worker.state = 'S';
      CHECK(node.pass(1s) == "");
    }
  }

  TEST_CASE("hang detector: remaining workers that are all stopped do not hang") {
    Node node(kAuto, 3);
    CHECK(node.pass(1s) == "");
    node.workers.erase(node.workers.begin());
    for (auto& worker : node.workers) worker.state = 'T';
    CHECK(node.pass(3600s) == "");
  }

  TEST_CASE("hang detector: a stopped process that runs in between does not hang") {
    Node node(kAuto);
    CHECK(node.pass(1s) == "");
    node.workers[1].state = 'T';
    std::string found;
    for (int i = 0; i < 100; ++i) {
      *node.workers[1].run_time += 100ms;
      found += node.pass(1s);
    }
    CHECK(found == "");
    CHECK(node.pass(60s) == "certain 1:stopped after 5 s");
  }

  TEST_CASE("hang detector: a further stopped rank is reported beside the first") {
    Node node(kAuto, 3);
    CHECK(node.pass(1s) == "");
    node.workers[1].state = 'T';
    CHECK(node.pass(10s) == "certain 1:stopped after 5 s");
    node.workers[2].state = 'T';
    CHECK(node.pass(10s) == "certain 1:stopped 2:stopped after 15 s");
    node.workers.erase(node.workers.begin() + 1, node.workers.end());
    CHECK(node.pass(1s).starts_with("resumed"));
  }

  TEST_CASE("hang detector: a fixed timeout applies to every kind of hang") {
    struct Row {
      char state;
      const char* found;
    };
    for (const auto& row :
         {Row{'R', "certain 1:busy after 10 s"}, Row{'S', "certain 1:idle after 10 s"},
          Row{'D', "certain 1:device after 10 s"}, Row{'T', "certain 1:stopped after 10 s"}}) {
      CAPTURE(row.state);
      Node node(fixed(10s));
      node.step(1);
      node.workers[1].state = row.state;
      CHECK(node.pass(9s) == "");
      CHECK(node.pass(100s) == row.found);
    }
  }

  TEST_CASE("hang detector: a rank at a terminal is not certain to hang with a fixed timeout") {
    Node node(fixed(10s), 2, 0, 1);
    node.step(1);
    CHECK(node.pass(100s) == "suspected 1:terminal after 10 s");
  }

  TEST_CASE("hang detector: with a fixed timeout ranks that all compute hang") {
    Node node(fixed(10s));
    node.step(1);
    for (auto& worker : node.workers) worker.activity.is_in_call = false;
    CHECK(node.pass(100s) == "certain 0:idle 1:idle after 10 s");
  }

  TEST_CASE("hang detector: workers whose waits are unknown do not hang") {
    Node node(fixed(10s));
    CHECK(node.pass(1000s) == "");
  }

  TEST_CASE("hang detector: a rank that runs while half of the main threads sleep is late") {
    struct Row {
      HangTimeout timeout;
      const char* found;
    };
    for (const auto& row : {Row{kAuto, "suspected 3:busy after 300 s"},
                            Row{fixed(10s), "certain 3:busy after 10 s"}}) {
      Node node = node_without_calls(row.timeout, 4);
      CHECK(node.pass(100s) == "");
      sleep_in(node, "lll ");
      CHECK(node.pass(1000s) == row.found);
    }
  }

  TEST_CASE("hang detector: ranks do not hang while most main threads run") {
    Node node = node_without_calls(fixed(10s), 4);
    sleep_in(node, "l   ");
    CHECK(node.pass(1000s) == "");
  }

  TEST_CASE("hang detector: of sleeping ranks those that do not wait for others are late") {
    struct Row {
      const char* waits;
      const char* found_by_default;
      const char* found_after_10s;
    };
    for (const auto& row :
         {Row{"ccl", "", "certain 2:idle after 10 s"}, Row{"ccp", "", "certain 2:idle after 10 s"},
          Row{"clp", "", "certain 1:idle 2:idle after 10 s"},
          Row{"cco", "suspected 2:idle after 30 s", "certain 2:idle after 10 s"},
          Row{"ccc", "", "certain 0:idle 1:idle 2:idle after 10 s"},
          Row{"llo", "suspected 2:idle after 30 s", "certain 2:idle after 10 s"},
          Row{"lpo", "suspected 2:idle after 30 s", "certain 2:idle after 10 s"},
          Row{"llp", "", "certain 2:idle after 10 s"},
          Row{"lll", "", "certain 0:idle 1:idle 2:idle after 10 s"},
          Row{"ooo", "", "certain 0:idle 1:idle 2:idle after 10 s"}}) {
      CAPTURE(row.waits);
      Node by_default = node_without_calls(kAuto, 3);
      CHECK(by_default.pass(100s) == "");
      sleep_in(by_default, row.waits);
      CHECK(by_default.pass(1000s) == row.found_by_default);
      Node after_10s = node_without_calls(fixed(10s), 3);
      sleep_in(after_10s, row.waits);
      CHECK(after_10s.pass(1000s) == row.found_after_10s);
    }
  }

  TEST_CASE("hang detector: a main thread in state D is late when the others sleep") {
    Node node = node_without_calls(fixed(10s), 3);
    sleep_in(node, "lll");
    node.workers[1].state = 'D';
    CHECK(node.pass(100s) == "certain 1:device after 10 s");
  }

  TEST_CASE("hang detector: equal waits on one of several nodes have an unknown cause") {
    Node node = node_without_calls(fixed(10s), 2, 2);
    sleep_in(node, "ll");
    CHECK(node.pass(100s) == "suspected after 10 s");
  }

  TEST_CASE("hang detector: a stopped rank is late when the main threads of others sleep") {
    Node node = node_without_calls(fixed(10s), 2);
    sleep_in(node, "ll");
    node.workers[0].state = 'T';
    CHECK(node.pass(100s) == "certain 0:stopped after 10 s");
  }

  TEST_CASE("hang detector: the only rank of a node is late while ranks of other nodes wait") {
    struct Row {
      HangTimeout timeout;
      const char* waits;
      const char* found;
    };
    for (const auto& row : {Row{fixed(10s), " ", "certain 0:busy after 10 s"},
                            Row{fixed(10s), "o", "certain 0:idle after 10 s"},
                            Row{fixed(10s), "l", "certain 0:idle after 10 s"},
                            Row{fixed(10s), "c", "suspected after 10 s"},
                            Row{kAuto, " ", "suspected 0:busy after 300 s"},
                            Row{kAuto, "o", "suspected 0:idle after 30 s"}, Row{kAuto, "l", ""},
                            Row{kAuto, "c", ""}}) {
      CAPTURE(row.waits);
      Node node = node_without_calls(row.timeout, 1, 1);
      CHECK(node.pass(100s) == "");
      node.set_others_waiting(true);
      sleep_in(node, row.waits);
      CHECK(node.pass(1000s) == row.found);
    }
  }

  TEST_CASE("hang detector: the only rank of a node may run as long as no other node waits") {
    Node node = node_without_calls(fixed(10s), 1, 1);
    std::string found;
    for (int i = 0; i < 100; ++i) {
      node.set_others_waiting(i % 2 == 0);
      found += node.pass(9s);
    }
    CHECK(found == "");
  }

  TEST_CASE("hang detector: a rank that calls no collective is late while other nodes wait") {
    Node node(kAuto, 1, 1);
    for (int i = 0; i < 30; ++i) {
      node.workers[0].activity.calls += 2;
      CHECK(node.pass(1s) == "");
    }
    CHECK(node.pass(1000s) == "");
    node.set_others_waiting(true);
    CHECK(node.pass(1000s) == "suspected 0:idle after 30 s");
  }

  TEST_CASE("hang detector: ranks wait after 3 s in a collective") {
    Node native(kAuto);
    native.step(30);
    CHECK(native.pass(2s) == "");
    CHECK_FALSE(native.are_ranks_waiting());
    CHECK(native.pass(1s) == "");
    CHECK(native.are_ranks_waiting());
    native.step();
    CHECK_FALSE(native.are_ranks_waiting());
    for (const char* waits : {"cc", "ll", "oo", " c"}) {
      CAPTURE(waits);
      Node node = node_without_calls(kAuto, 2);
      CHECK(node.pass(10s) == "");
      sleep_in(node, waits);
      CHECK(node.pass(3s) == "");
      CHECK(node.are_ranks_waiting() == (waits[1] == 'c'));
    }
  }

  TEST_CASE("hang detector: by default programs without calls have a minute to start") {
    Node node = node_without_calls(kAuto, 2);
    CHECK(node.pass(50s) == "");
    sleep_in(node, "lo");
    CHECK(node.pass(5000s) == "");
  }

  TEST_CASE("hang detector: polls of a main thread do not end its sleep") {
    Node node = node_without_calls(fixed(10s), 2);
    sleep_in(node, "lp");
    std::string found;
    for (int i = 0; i < 20; ++i) {
      found += node.pass(1s);
      *node.workers[1].main_time += 900us;
    }
    CHECK(found == "certain 1:idle after 10 s");
  }

  TEST_CASE("hang detector: a new program in a worker ends the sleep") {
    Node node = node_without_calls(fixed(10s), 2);
    sleep_in(node, "ll");
    std::string found;
    for (int i = 0; i < 100; ++i) {
      found += node.pass(5s);
      for (auto& worker : node.workers) ++worker.pid;
    }
    CHECK(found == "");
  }

  TEST_CASE("hang detector: ended sleeps of main threads raise the automatic limit tenfold") {
    Node node = node_without_calls(kAuto, 2);
    CHECK(node.pass(100s) == "");
    sleep_in(node, "lo");
    CHECK(node.pass(20s) == "");
    for (auto& worker : node.workers) worker.state = 'R';
    CHECK(node.pass(5s) == "");
    sleep_in(node, "lo");
    CHECK(node.pass(199s) == "");
    CHECK(node.pass(2s) == "suspected 1:idle after 200 s");
    for (auto& worker : node.workers) worker.state = 'R';
    CHECK(node.pass(5s).starts_with("resumed 1:idle after "));
  }

  TEST_CASE("hang detector: 1000 healthy histories without calls contain no hang") {
    for (unsigned seed = 0; seed < 1000; ++seed) {
      std::mt19937 random(seed);
      const auto draw = [&random](int max) {
        return static_cast<int>(random() % static_cast<unsigned>(max + 1));
      };
      Node node = node_without_calls(kAuto, 4);
      std::string found = node.pass(std::chrono::seconds(draw(50)));
      // Rank 0 prepares the data.
      sleep_in(node, " lpl");
      found += node.pass(std::chrono::seconds(draw(3600)));
      for (int period = 0; period < 10; ++period) {
        for (auto& worker : node.workers) worker.state = 'R';
        found += node.pass(std::chrono::seconds(30 + draw(60)));
        // An evaluation, a save, or a wait for a service.
        std::string waits = "llll";
        waits[static_cast<std::size_t>(draw(3))] = " op"[draw(2)];
        sleep_in(node, waits);
        found += node.pass(std::chrono::seconds(draw(25)));
      }
      // A server without requests.
      sleep_in(node, "plll");
      found += node.pass(3600s);
      CAPTURE(seed);
      CHECK(found == "");
    }
  }

  // Steps, evaluations and saves of random lengths, on random ranks.
  TEST_CASE("hang detector: 1000 healthy histories contain no hang") {
    for (unsigned seed = 0; seed < 1000; ++seed) {
      std::mt19937 random(seed);
      const auto draw = [&random](int max) {
        return static_cast<int>(random() % static_cast<unsigned>(max + 1));
      };
      Node node(kAuto, 4);
      std::string found = node.step(1, 30s);
      for (int period = 0; period < 10; ++period) {
        found += node.step(10 + draw(50));
        WorkerSample& rank = node.workers[static_cast<std::size_t>(draw(3))];
        for (auto& worker : node.workers) worker.activity.is_in_call = true;
        rank.activity.is_in_call = false;
        node.late = {rank.rank};
        // An evaluation or a save is busy or waits for a disk, and then for a service.
        rank.state = draw(1) == 0 ? 'R' : 'D';
        found += node.pass(std::chrono::seconds(draw(60)));
        rank.state = 'S';
        found += node.pass(std::chrono::seconds(draw(25)));
      }
      CAPTURE(seed);
      CHECK(found == "");
    }
  }
}

}  // namespace hang_detector_test
