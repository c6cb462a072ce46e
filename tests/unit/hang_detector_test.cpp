// Findings of the hang detector for given samples of programs that call the worker runtime.
#include "tests/support/hang_node.hpp"

#include <doctest/doctest.h>

#include <random>
#include <string>

namespace hang_detector_test {

using namespace ddprun;
using namespace ddprun::test;
using namespace std::chrono_literals;

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

  TEST_CASE("hang detector: a rank that runs for a moment or is replaced each 20 s is not idle") {
    for (const bool is_replaced : {false, true}) {
      CAPTURE(is_replaced);
      Node node(kAuto);
      node.step(30);
      auto& rank = node.workers[1];
      std::string found;
      for (int i = 0; i < 50; ++i) {
        found += node.pass(19s);
        if (is_replaced) ++rank.pid;
        if (!is_replaced) *rank.run_time += 1ns;
        found += node.pass(1s);
      }
      CHECK(found == "suspected 1:busy after 300 s");
    }
  }

  TEST_CASE("hang detector: a rank whose other threads only poll is idle") {
    struct Row {
      std::chrono::milliseconds run_in_a_second;
      const char* found;
    };
    for (const auto& row :
         {Row{10ms, "suspected 1:idle after 30 s"}, Row{11ms, "suspected 1:busy after 300 s"}}) {
      Node node(kAuto);
      for (auto& worker : node.workers) worker.main_time = 1s;
      node.step(30);
      std::string found;
      for (int i = 0; i < 400; ++i) {
        *node.workers[1].run_time += row.run_in_a_second;
        found += node.pass(1s);
      }
      CHECK(found == row.found);
    }
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

  TEST_CASE("hang detector: a rank is late with any fixed timeout while the others wait") {
    for (const auto timeout : {1s, 2s, 3s, 4s}) {
      Node node(fixed(timeout));
      node.step(1);
      CHECK(node.pass(100s) == "certain 1:idle after " + std::to_string(timeout / 1s) + " s");
    }
  }

  TEST_CASE("hang detector: a rank at a terminal is not certain to hang with a fixed timeout") {
    Node node(fixed(10s), 2, 0, 1);
    node.step(1);
    CHECK(node.pass(100s) == "suspected 1:terminal after 10 s");
  }

  TEST_CASE("hang detector: with a fixed timeout ranks that all wait in collectives hang") {
    for (const int other_ranks : {0, 2}) {
      CAPTURE(other_ranks);
      Node node(fixed(10s), 2, other_ranks);
      node.step(1);
      node.workers[1].activity.is_in_call = true;
      node.late.clear();
      node.set_others_waiting(other_ranks > 0, other_ranks > 0);
      CHECK(node.pass(100s) == "certain 0:collective 1:collective after 10 s");
    }
  }

  TEST_CASE("hang detector: a rank that is stopped or in state D in a collective does not wait") {
    for (const char state : {'T', 't', 'D'}) {
      CAPTURE(state);
      Node node(kAuto);
      node.step(30);
      node.workers[1].activity.is_in_call = true;
      node.pass(4s);
      CHECK(node.are_all_waiting());
      node.workers[1].state = state;
      node.workers[1].is_traced = state == 't';
      node.pass(1s);
      CHECK(!node.are_all_waiting());
    }
  }

  TEST_CASE("hang detector: with a fixed timeout ranks that all compute hang") {
    Node node(fixed(10s));
    node.step(1);
    for (auto& worker : node.workers) worker.activity.is_in_call = false;
    CHECK(node.pass(100s) == "certain 0:idle 1:idle after 10 s");
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
