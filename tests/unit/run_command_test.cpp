// Messages to nodes that differ from the others of their run.
#include "rendezvous/membership/command.hpp"
#include "tests/support/coordination_driver.hpp"

#include <doctest/doctest.h>

namespace run_command_test {

using namespace ddprun::membership;
using ddprun::test::CoordinationDriver;

namespace {

/// Message of the coordinator to a node that joins with this command.
std::string warning_to(CoordinationDriver& driver, NodeId id, const std::string& name,
                       const std::string& command) {
  Join join = driver.join_of(name);
  join.command = command;
  driver.send(id, join, 0);
  const auto welcomes = driver.sent_to<Welcome>(id);
  REQUIRE(welcomes.size() == 1);
  return welcomes[0].warning;
}

}  // namespace

TEST_SUITE("addresses of nodes") {
  TEST_CASE("node addresses: a node with the address of another one causes a warning") {
    struct Row {
      const char *name, *from, *other_name, *other_from;
      bool is_warned_of;
    };
    const Row rows[] = {
        {"10.0.0.1", "10.0.0.1", "10.0.0.1", "10.0.0.2", true},
        {"10.0.0.1", "10.0.0.2", "10.0.0.1", "10.0.0.1", true},
        {"10.0.0.1", "10.0.0.1", "10.0.0.2", "10.0.0.2", false},
        {"10.0.0.1", "10.0.0.1", "10.0.0.1", "10.0.0.1", false},  // two agents on one machine
        {"10.0.0.9", "10.0.0.1", "10.0.0.9", "10.0.0.2", false},  // behind a proxy, or both invalid
        {"10.0.0.1", "10.0.0.1", "10.0.0.1", "", false},          // from the loopback address
        {"10.0.0.1", "10.0.0.1", "10.0.0.1", "fd00::1", false},   // which may be its other address
        {"localhost", "10.0.0.1", "localhost", "10.0.0.2", false},
    };
    for (const auto& row : rows) {
      CoordinationDriver driver({.run_id = "run", .nodes_min = 2, .nodes_max = 2});
      Join first = driver.join_of(row.name);
      first.probe.host = row.from;
      Join second = driver.join_of(row.other_name);
      second.probe.host = row.other_from;
      second.node_rank = 1;
      driver.send(1, first, 0);
      driver.send(2, second, 0);
      const auto welcomes = driver.sent_to<Welcome>(2);
      REQUIRE(welcomes.size() == 1);
      CAPTURE(welcomes[0].warning);
      CHECK(welcomes[0].warning ==
            (row.is_warned_of ? std::string("the nodes that connect from ") + row.from + " and " +
                                    row.other_from + " are both named " + row.name +
                                    "; give each its own address (--local_addr)"
                              : ""));
    }
  }
}

TEST_SUITE("commands of nodes") {
  TEST_CASE("node commands: a node with a different command is accepted with a warning") {
    CoordinationDriver driver({.run_id = "run", .nodes_min = 5, .nodes_max = 5});
    CHECK(warning_to(driver, 1, "a", "").empty());
    CHECK(warning_to(driver, 2, "b", "train.py --lr 1").empty());
    CHECK(warning_to(driver, 3, "c", "train.py --lr 1").empty());
    CHECK(warning_to(driver, 4, "d", "").empty());
    CHECK(warning_to(driver, 5, "e", "train.py --lr 2") ==
          "e runs \"train.py --lr 2\" and b \"train.py --lr 1\"; nodes of one run should run the "
          "same");
  }

  TEST_CASE("node commands: the warning shows the differing part of long commands") {
    const std::string same = "train.py" + std::string(50, 'x') + " --model=" + std::string(30, 'y');
    const std::string end(200, 'z');
    CHECK(describe_difference("a", same + " --lr=1 " + end, "b", same + " --lr=2") ==
          "a runs \"...--model=" + std::string(30, 'y') + " --lr=1 " + std::string(74, 'z') +
              "...\" and b \"...--model=" + std::string(30, 'y') +
              " --lr=2\"; nodes of one run should run the same");
  }

  TEST_CASE("node commands: the warning shows the additional end of the longer command") {
    CHECK(describe_difference("a", "train.py", "b", "train.py --debug") ==
          "a runs \"train.py\" and b \"train.py --debug\"; nodes of one run should run the same");
  }

  TEST_CASE("node commands: very long commands are compared by a hash of their end") {
    const std::string shared(kCommandBytesMax, 'x');
    CHECK(bounded_command(shared) == shared);
    const auto one = bounded_command(shared + "1");
    CHECK(one.size() < kCommandBytesMax + 60);
    CHECK(one.starts_with(shared + "... (1025 bytes, hash "));
    CHECK(one != bounded_command(shared + "2"));
  }
}

}  // namespace run_command_test
