// Decisions of a start over ssh, and its exit code, from the states of its nodes: tables.
#include "launcher/ssh/node_results.hpp"

#include <doctest/doctest.h>

namespace ssh_node_results_test {

using namespace ddprun::ssh;

namespace {

using Action = Decision::Action;
using State = NodeResult::State;

constexpr NodeResult kStarting{.state = State::starting};
constexpr NodeResult kRunning{.state = State::running};
constexpr NodeResult kAbsent{.state = State::not_started};
constexpr NodeResult kLost{.state = State::lost};
constexpr NodeResult kLeftOut{.state = State::left_out};

NodeResult ended(int exit_code, int order = 1) {
  return {.state = State::ended, .exit_code = exit_code, .order = order};
}

NodeResult refused() {
  return {.state = State::ended, .exit_code = 2, .order = 1, .has_refused = true};
}

struct Case {
  const char* name;
  RunFacts facts;
  Action action;
  int exit_code = 0;
};

RunFacts of(std::vector<NodeResult> nodes, std::size_t nodes_min = 2,
            std::optional<std::size_t> host = 0, int interrupted_by = 0) {
  return {.nodes = std::move(nodes),
          .nodes_min = nodes_min,
          .host = host,
          .interrupted_by = interrupted_by};
}

RunFacts cut_short(std::vector<NodeResult> nodes) {
  auto facts = of(std::move(nodes));
  facts.is_cut_short = true;
  return facts;
}

const Case kCases[] = {
    {"all starting", of({kStarting, kStarting}), Action::wait},
    {"all running", of({kRunning, kRunning}), Action::wait},
    {"one absent of a fixed number", of({kRunning, kAbsent}), Action::stop},
    {"one absent, the others starting", of({kStarting, kAbsent}), Action::stop},
    {"one absent of enough", of({kRunning, kAbsent, kRunning}, 2), Action::wait},
    {"the host absent, the others enough", of({kAbsent, kRunning, kRunning}, 2), Action::stop},
    {"one absent, the host elsewhere", of({kAbsent, kRunning, kRunning}, 2, {}), Action::wait},
    {"one that rejected its options", of({kRunning, refused()}), Action::stop},
    {"one whose workers failed with 2", of({kRunning, ended(2)}), Action::stop_later},
    {"all whose workers failed with 2", of({ended(2), ended(2)}), Action::finish, 2},
    {"the host's code is 2", of({ended(2, 1), ended(143, 2)}), Action::finish, 2},
    {"one lost of a fixed number", of({kRunning, kLost}), Action::stop_later},
    {"one that has ended before the other", of({kRunning, ended(1)}), Action::stop_later},
    {"one that has succeeded before the other", of({kRunning, ended(0)}), Action::stop_later},
    {"one absent, the other ended", of({kRunning, kAbsent, ended(1)}, 3), Action::stop_later},
    {"interrupted", of({kRunning, kAbsent}, 2, 0, 2), Action::wait},
    {"all succeeded", of({ended(0), ended(0)}), Action::finish, 0},
    {"the host's code is the run's", of({ended(3, 1), ended(143, 2)}), Action::finish, 3},
    {"without a host the last one's", of({ended(3, 2), ended(143, 1)}, 2, {}), Action::finish, 3},
    {"the host was killed", of({ended(-9, 2), ended(1, 1)}), Action::finish, 1},
    {"all were killed", of({ended(-9, 1), ended(-15, 2)}), Action::finish, 143},
    {"all absent", of({kAbsent, kAbsent}), Action::finish, 1},
    {"all lost", of({kLost, kLost}), Action::finish, 1},
    {"one absent, the other succeeded", of({ended(0), kAbsent}, 1), Action::finish, 0},
    {"stopped because one was absent", cut_short({ended(143), kAbsent}), Action::finish, 1},
    {"stopped because one rejected its options", cut_short({ended(143), refused()}), Action::finish,
     2},
    {"stopped because one was killed", cut_short({ended(143), ended(-9)}), Action::finish, 1},
    {"one absent, a worker killed", of({ended(137), kAbsent}, 1), Action::finish, 137},
    {"all rejected their options", of({refused(), refused()}), Action::finish, 2},
    {"interrupted with one absent", of({ended(130), kAbsent}, 1, 0, 2), Action::finish, 130},
    {"interrupted before any started", of({kAbsent, kAbsent}, 2, 0, 2), Action::finish, 130},
    {"interrupted, all connections closed", of({kLost, kLost}, 2, 0, 15), Action::finish, 143},
    {"nodes left out are ignored", of({ended(0), ended(0), kLeftOut}), Action::finish, 0},
};

}  // namespace

TEST_SUITE("results of nodes over ssh") {
  TEST_CASE("ssh results: next action and exit code follow from the states of the nodes") {
    for (const auto& entry : kCases) {
      CAPTURE(entry.name);
      const auto decision = decide(entry.facts);
      CHECK(decision.action == entry.action);
      if (entry.action == Action::finish) CHECK(decision.exit_code == entry.exit_code);
    }
  }

  TEST_CASE("ssh results: a stop's reason names the number of nodes or the missing host") {
    CHECK(decide(of({kRunning, kAbsent})).reason == "only 1 of the required 2 nodes is available");
    auto facts = of({kAbsent, kRunning, kRunning}, 2);
    facts.host_name = "c1";
    CHECK(decide(facts).reason == "the rendezvous host c1 could not be started");
  }

  TEST_CASE("ssh results: the starter describes the end if no node reports it") {
    const auto facts = cut_short({ended(143), ended(-9)});
    CHECK(describe_end(facts, "too few", {"b lost its agent by SIGKILL"}) ==
          "too few; b lost its agent by SIGKILL");
    CHECK(describe_end(facts, "too few", {"1", "2", "3", "4", "5", "6"}) ==
          "too few; 1; 2; 3; 4; and 2 nodes more");
    CHECK(describe_end(of({kAbsent, ended(-2)}, 2, 0, 2), "", {}) ==
          "it was asked to stop by SIGINT");
    CHECK_FALSE(describe_end(of({ended(130), ended(130)}, 2, 0, 2), "", {}));
    CHECK_FALSE(describe_end(of({ended(1), ended(-9)}), "", {"b was lost"}));
  }
}

}  // namespace ssh_node_results_test
