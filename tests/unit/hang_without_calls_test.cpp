// Findings of the hang detector for given samples of programs without the worker runtime.
#include "tests/support/hang_node.hpp"

#include <doctest/doctest.h>

#include <random>
#include <string>

namespace hang_without_calls_test {

using namespace ddprun;
using namespace ddprun::test;
using namespace std::chrono_literals;

namespace {

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

/// One rank calls heartbeat(), and the others continue for this time.
std::string beat(Node& node, std::chrono::seconds time) {
  ++node.workers.back().activity.heartbeats;
  return node.pass(time);
}

}  // namespace

TEST_SUITE("hang detector") {
  TEST_CASE("hang detector: workers whose waits are unknown do not hang") {
    Node node(fixed(10s));
    CHECK(node.pass(1000s) == "");
  }

  TEST_CASE("hang detector: a capture of stacks, which interrupts all waits, does not end a hang") {
    Node node = node_without_calls(fixed(10s), 4);
    CHECK(node.pass(100s) == "");
    sleep_in(node, "cccl");
    CHECK(node.pass(20s) == "certain 3:blocked after 10 s");
    const auto interrupt = [&node](bool is_capture) {
      for (auto& worker : node.workers) {
        if (is_capture) ++worker.inspections;
        *worker.main_time += 1ms;
      }
    };
    interrupt(true);  // it begins
    node.workers[0].is_traced = true;
    CHECK(node.pass(2s) == "");
    node.workers[0].is_traced = false;
    interrupt(true);  // it ends
    for (auto& worker : node.workers) worker.waiting_code.clear();
    CHECK(node.pass(1s) == "");
    interrupt(false);  // the workers resume their waits late
    CHECK(node.pass(19s) == "");
    interrupt(false);
    CHECK(node.pass(2s) == "resumed 3:blocked after 43 s");
  }

  TEST_CASE("hang detector: a rank that has waited and runs again is not late yet") {
    Node node = node_without_calls(fixed(10s), 3);
    CHECK(node.pass(100s) == "");
    sleep_in(node, "ccc");
    CHECK(node.pass(8s) == "");
    sleep_in(node, "cc ");
    CHECK(node.pass(9s) == "");
    CHECK(node.pass(10s) == "certain 2:busy after 18 s");
  }

  TEST_CASE("hang detector: a rank in state D is late") {
    for (const int other_ranks : {0, 4}) {
      Node node = node_without_calls(fixed(10s), 3, other_ranks);
      CHECK(node.pass(100s) == "");
      sleep_in(node, "cc ");
      node.workers[2].state = 'D';
      node.workers[2].waiting_code.clear();
      CHECK(node.pass(30s) == "certain 2:device after 10 s");
    }
  }

  TEST_CASE("hang detector: a rank that runs while half of the ranks wait is late") {
    struct Row {
      HangTimeout timeout;
      const char* waits;
      const char* found;
    };
    for (const auto& row :
         {Row{kAuto, "ccc ", "suspected 3:busy after 300 s"},
          Row{fixed(10s), "ccc ", "certain 3:busy after 10 s"}, Row{kAuto, "lll ", ""},
          Row{fixed(10s), "lll ", "certain 0:blocked 1:blocked 2:blocked 3:busy after 10 s"}}) {
      CAPTURE(row.waits);
      Node node = node_without_calls(row.timeout, 4);
      CHECK(node.pass(100s) == "");
      sleep_in(node, row.waits);
      CHECK(node.pass(1000s) == row.found);
    }
  }

  TEST_CASE("hang detector: a rank that joins the wait late does not hang") {
    Node node = node_without_calls(fixed(14s), 4);
    sleep_in(node, "cc l");
    CHECK(node.pass(9s) == "");
    sleep_in(node, "cccl");
    CHECK(node.pass(100s) == "certain 3:blocked after 14 s");
  }

  TEST_CASE("hang detector: a rank whose other threads or descendants work does not sleep") {
    for (const auto time : {50ms, 200ms}) {
      Node node = node_without_calls(fixed(10s), 2);
      sleep_in(node, "ll");
      std::string found;
      for (int i = 0; i < 100; ++i) {
        found += node.pass(1s);
        for (auto& worker : node.workers) *worker.run_time += time;
      }
      CHECK(found == (time == 50ms ? "certain 0:blocked 1:blocked after 10 s" : ""));
    }
  }

  TEST_CASE("hang detector: ranks whose run times are unknown are not late for other nodes") {
    Node node(fixed(10s), 2, 2);
    node.set_others_waiting(true);
    CHECK(node.pass(100s) == "suspected after 10 s");
  }

  TEST_CASE("hang detector: ranks that run without a heartbeat for the limit hang") {
    struct Row {
      HangTimeout timeout;
      int other_ranks;
      const char* waits;
      const char* found;
    };
    for (const auto& row :
         {Row{fixed(10s), 0, "  ", "certain 0:busy 1:busy after 10 s"},
          Row{fixed(10s), 0, "c ", "certain 1:busy after 10 s"},
          Row{fixed(10s), 0, "cc", "certain 0:collective 1:collective after 10 s"},
          Row{fixed(10s), 2, "  ", "certain 0:busy 1:busy after 10 s"},
          Row{fixed(10s), 2, "cc", "suspected after 10 s"},
          Row{kAuto, 0, "  ", "suspected after 300 s"},
          Row{kAuto, 0, "c ", "suspected 1:busy after 300 s"},
          Row{kAuto, 2, "cc", "suspected after 300 s"}}) {
      CAPTURE(row.found);
      Node node = node_without_calls(row.timeout, 2, row.other_ranks);
      CHECK(node.pass(100s) == "");  // imports
      for (int i = 0; i < 30; ++i) CHECK(beat(node, 5s) == "");
      sleep_in(node, row.waits);
      CHECK(node.pass(1000s) == row.found);
      CHECK(beat(node, 1s).starts_with("resumed"));
    }
  }

  TEST_CASE("hang detector: intervals between heartbeats raise the automatic limit tenfold") {
    Node node = node_without_calls(kAuto, 2);
    for (int i = 0; i < 30; ++i) CHECK(beat(node, 60s) == "");
    CHECK(node.pass(530s) == "");
    CHECK(node.pass(1000s) == "suspected after 590 s");
  }

  TEST_CASE("hang detector: the time before the first call is not a part of the first steps") {
    Node node = node_without_calls(kAuto, 2);
    CHECK(node.pass(100s) == "");
    node.step(5);
    for (auto& worker : node.workers) worker.state = 'S';
    CHECK(node.pass(299s) == "");
    CHECK(node.pass(2s) == "suspected 1:idle after 300 s");
  }

  TEST_CASE("hang detector: ranks do not hang while most main threads run") {
    Node node = node_without_calls(fixed(10s), 4);
    sleep_in(node, "c   ");
    CHECK(node.pass(1000s) == "");
  }

  TEST_CASE("hang detector: of sleeping ranks those that do not wait for others are late") {
    struct Row {
      const char* waits;
      const char* found_by_default;
      const char* found_after_10s;
    };
    for (const auto& row :
         {Row{"ccl", "suspected 2:blocked after 300 s", "certain 2:blocked after 10 s"},
          Row{"ccp", "suspected 2:blocked after 300 s", "certain 2:blocked after 10 s"},
          Row{"clp", "suspected 1:blocked 2:blocked after 300 s",
              "certain 1:blocked 2:blocked after 10 s"},
          Row{"cco", "suspected 2:idle after 30 s", "certain 2:idle after 10 s"},
          Row{"ccc", "", "certain 0:collective 1:collective 2:collective after 10 s"},
          Row{"llo", "suspected 2:idle after 30 s", "certain 2:idle after 10 s"},
          Row{"lpo", "suspected 2:idle after 30 s", "certain 2:idle after 10 s"},
          Row{"llp", "", "certain 0:blocked 1:blocked 2:blocked after 10 s"},
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
    sleep_in(node, "coc");
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
    for (const auto& row :
         {Row{fixed(10s), " ", "certain 0:busy after 10 s"},
          Row{fixed(10s), "o", "certain 0:idle after 10 s"},
          Row{fixed(10s), "l", "certain 0:blocked after 10 s"},
          Row{fixed(10s), "c", "suspected after 10 s"},
          Row{kAuto, " ", "suspected 0:busy after 300 s"},
          Row{kAuto, "o", "suspected 0:idle after 30 s"},
          Row{kAuto, "l", "suspected 0:blocked after 300 s"}, Row{kAuto, "c", ""}}) {
      CAPTURE(row.waits);
      Node node = node_without_calls(row.timeout, 1, 1);
      CHECK(node.pass(100s) == "");
      node.set_others_waiting(true);
      sleep_in(node, row.waits);
      CHECK(node.pass(1000s) == row.found);
    }
  }

  TEST_CASE("hang detector: ranks of all nodes that wait for each other hang with a fixed limit") {
    struct Row {
      HangTimeout timeout;
      const char* waits;
      bool are_others_waiting;
      const char* found;
    };
    for (const auto& row :
         {Row{fixed(10s), "cc", true, "certain 0:collective 1:collective after 10 s"},
          Row{fixed(10s), "cc", false, "suspected after 10 s"},
          Row{fixed(10s), "cl", true, "certain 1:blocked after 10 s"},
          Row{kAuto, "cc", true, ""}}) {
      CAPTURE(row.waits);
      CAPTURE(row.are_others_waiting);
      Node node = node_without_calls(row.timeout, 2, 2);
      CHECK(node.pass(100s) == "");
      node.set_others_waiting(true, row.are_others_waiting);
      sleep_in(node, row.waits);
      CHECK(node.pass(1000s) == row.found);
    }
  }

  TEST_CASE("hang detector: all ranks are certain to hang when the last has waited for the limit") {
    Node node = node_without_calls(fixed(10s), 2, 2);
    CHECK(node.pass(100s) == "");
    node.set_others_waiting(true);
    sleep_in(node, "cc");
    CHECK(node.pass(20s) == "suspected after 10 s");
    node.set_others_waiting(true, true);  // for 3 s
    CHECK(node.pass(6s) == "");
    CHECK(node.pass(1s) == "certain 0:collective 1:collective after 27 s");
  }

  TEST_CASE("hang detector: all ranks of a node wait if none computes or is held by a debugger") {
    struct Row {
      const char* waits;
      bool is_traced;
      bool are_all_waiting;
    };
    for (const auto& row : {Row{"cc", false, true}, Row{"cc", true, false}, Row{"c ", false, false},
                            Row{"cl", false, false}}) {
      CAPTURE(row.waits);
      Node node = node_without_calls(kAuto, 2, 2);
      node.pass(10s);
      sleep_in(node, row.waits);
      CHECK(node.pass(2s) == "");
      CHECK(!node.are_all_waiting());
      node.pass(2s);
      node.workers[0].is_traced = row.is_traced;
      node.pass(1s);
      CHECK(node.are_all_waiting() == row.are_all_waiting);
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
    CHECK(native.ranks_wait() == 0s);
    CHECK(native.pass(1s) == "");
    CHECK(native.ranks_wait() == 3s);
    native.step();
    CHECK(native.ranks_wait() == 0s);
    for (const char* waits : {"cc", "ll", "oo", " c"}) {
      CAPTURE(waits);
      Node node = node_without_calls(kAuto, 2);
      CHECK(node.pass(10s) == "");
      sleep_in(node, waits);
      CHECK(node.pass(4s) == "");
      CHECK(node.ranks_wait() == (waits[1] == 'c' ? 4s : 0s));
    }
  }

  TEST_CASE("hang detector: by default programs without calls have a minute to start") {
    Node node = node_without_calls(kAuto, 2);
    CHECK(node.pass(50s) == "");
    sleep_in(node, "lo");
    CHECK(node.pass(5000s) == "");
  }

  TEST_CASE("hang detector: a rank that polls is late while others wait") {
    Node node = node_without_calls(fixed(10s), 2);
    sleep_in(node, "cp");
    std::string found;
    for (int i = 0; i < 20; ++i) {
      found += node.pass(1s);
      *node.workers[1].main_time += 1us;
    }
    CHECK(found == "certain 1:busy after 10 s");
  }

  TEST_CASE("hang detector: steps of some microseconds end the wait of all ranks") {
    Node node = node_without_calls(fixed(10s), 2);
    sleep_in(node, "cl");
    std::string found;
    for (int i = 0; i < 100; ++i) {
      found += node.pass(3s);
      for (auto& worker : node.workers) *worker.main_time += 1us;
    }
    CHECK(found == "");
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
      sleep_in(node, " ccl");
      found += node.pass(std::chrono::seconds(draw(3600)));
      for (int period = 0; period < 10; ++period) {
        for (auto& worker : node.workers) worker.state = 'R';
        found += node.pass(std::chrono::seconds(30 + draw(60)));
        // An evaluation, a save, or a wait for a service.
        std::string waits = "cccc";
        char& rank = waits[static_cast<std::size_t>(draw(3))];
        rank = " opl"[draw(3)];
        sleep_in(node, waits);
        found += node.pass(std::chrono::seconds(draw(rank == 'o' ? 29 : 299)));
      }
      // A server without requests.
      sleep_in(node, "plll");
      found += node.pass(3600s);
      CAPTURE(seed);
      CHECK(found == "");
    }
  }
}

}  // namespace hang_without_calls_test
