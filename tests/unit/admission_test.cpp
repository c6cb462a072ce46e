// Nodes that a coordinator rejects, and the reasons that it sends.
#include "rendezvous/membership/coordination.hpp"
#include "tests/support/coordination_driver.hpp"

#include <doctest/doctest.h>

#include <limits>
#include <string>

namespace admission_test {

using namespace ddprun::membership;
using ddprun::test::CoordinationDriver;

namespace {

Settings settings(int least, int most) {
  return {.run_id = "run",
          .nodes_min = least,
          .nodes_max = most,
          .last_call_timeout = std::chrono::seconds(2)};
}

}  // namespace

TEST_SUITE("admission of nodes") {
  TEST_CASE("admission: a node of another run is rejected and the differing setting is named") {
    CoordinationDriver driver(settings(2, 2));
    struct Case {
      void (*change)(Join&);
      const char* text;
    };
    const Case cases[] = {
        {[](Join& j) { j.version = 99; }, "the version of the agents' messages is 99"},
        {[](Join& j) { j.run_id = "other"; },
         "the run (--rdzv_id) is 'other' on the node that joins and 'run'"},
        {[](Join& j) { j.config_hash = "h"; },
         "the node that joins has a configuration file (--config)"},
        {[](Join& j) { j.name = std::string(256, 'n'); }, "name has 256 bytes (at most 255)"},
        {[](Join& j) { j.role = std::string(256, 'r'); }, "--role has 256 bytes (at most 255)"},
        {[](Join& j) { j.local_world_size = 0; }, "--nproc_per_node is 0 on the node"},
        {[](Join& j) { j.local_world_size = 1025; }, "(from 1 to 1024)"},
        {[](Join& j) { j.nodes_max = 4; }, "--nnodes is 2:4 on the node that joins and 2 on"},
        {[](Join& j) { j.max_restarts = 5; }, "--max_restarts is 5 on the node that joins and 0"},
    };
    NodeId id = 10;
    for (const auto& [change, text] : cases) {
      Join join = driver.join_of("a");
      change(join);
      driver.send(++id, join, 0);
      REQUIRE(driver.sent_to<Refused>(id).size() == 1);
      CHECK(driver.sent_to<Refused>(id)[0].reason.find(text) != std::string::npos);
      CHECK(driver.has<CloseConnection>());
    }
  }

  TEST_CASE("admission: the outline is sent only to a node with another configuration") {
    auto with_config = settings(2, 2);
    with_config.config_hash = "right";
    with_config.config_outline = "{}";
    CoordinationDriver driver(with_config);
    Join join = driver.join_of("a");
    driver.send(1, join, 0);
    CHECK(driver.sent_to<Refused>(1) ==
          std::vector{Refused{
              "the node that joins has no configuration file (--config), the one that hosts "
              "the rendezvous has"}});
    join.config_hash = "wrong";
    driver.send(2, join, 0);
    CHECK(driver.sent_to<Refused>(2) ==
          std::vector{Refused{"the configuration file (--config) is another one than on the node "
                              "that hosts the rendezvous",
                              "{}"}});
    join.config_hash = "right";
    driver.send(3, join, 0);
    CHECK(driver.sent_to<Welcome>(3).size() == 1);
  }

  TEST_CASE("admission: a join with numbers or names outside their bounds is rejected") {
    struct Case {
      void (*change)(Join&);
      const char* text;  ///< empty: the node is accepted
    };
    const Case cases[] = {
        {[](Join& j) { j.last_round = std::numeric_limits<int>::max(); }, "the latest round"},
        {[](Join& j) { j.last_round = -2; }, "the latest round is -2"},
        {[](Join& j) { j.restarts_used = kRoundMax + 1; }, "the number of restarts"},
        {[](Join& j) { j.restarts_used = -1; }, "the number of restarts"},
        {[](Join& j) { j.local_world_size = 0; },
         "--nproc_per_node is 0 on the node that joins (from 1 to 1024)"},
        {[](Join& j) { j.node_rank = 3; },
         "--node_rank is 3 on the node that joins (from -1 to 2)"},
        {[](Join& j) { j.node_rank = -2; }, "--node_rank is -2"},
        {[](Join& j) { j.name.assign(kNameBytesMax + 1, 'x'); }, "has 256 bytes (at most 255)"},
        {[](Join& j) { j.role.assign(kNameBytesMax + 1, 'x'); }, "has 256 bytes (at most 255)"},
        {[](Join& j) {
           j.name.assign(kNameBytesMax, 'x');
           j.role = j.name;
           j.local_world_size = 1024;
           j.node_rank = 2;
           j.last_round = j.restarts_used = kRoundMax;
         },
         ""},
    };
    for (const auto& [change, text] : cases) {
      CoordinationDriver driver(settings(1, 3));
      Join join = driver.join_of("a");
      change(join);
      driver.send(1, join, 0);
      const auto refused = driver.sent_to<Refused>(1);
      const bool is_welcome = std::string(text).empty();
      CHECK(refused.empty() == is_welcome);
      if (!refused.empty()) CHECK(refused[0].reason.find(text) != std::string::npos);
      // Any accepted node can be part of a round.
      driver.pass(2000);
      CHECK(driver.sent_to<RoundFormed>(1).size() == (is_welcome ? 1U : 0U));
    }
  }

  TEST_CASE("admission: the second node that requests the same node rank is rejected") {
    CoordinationDriver driver(settings(3, 3));
    Join join = driver.join_of("a");
    join.node_rank = 1;
    driver.send(1, join, 0);
    join.name = "b";
    driver.send(2, join, 0);
    CHECK(driver.sent_to<Refused>(2)[0].reason == "--node_rank=1 is taken by a");
  }
}

}  // namespace admission_test
