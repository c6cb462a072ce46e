#include "rendezvous/membership/command.hpp"
#include "tests/support/membership_talk.hpp"

#include <doctest/doctest.h>

namespace run_command_test {

using namespace ddprun::membership;
using ddprun::test::Talk;

namespace {

/// What the coordinator tells a node that comes with this command.
std::string told(Talk& talk, NodeId id, const std::string& name, const std::string& command) {
  Join join = talk.join_of(name);
  join.command = command;
  talk.say(id, join, 0);
  const auto welcomes = talk.told<Welcome>(id);
  REQUIRE(welcomes.size() == 1);
  return welcomes[0].warning;
}

}  // namespace

TEST_SUITE("commands of nodes") {
  TEST_CASE("a node that runs something else than the first is let in and told so") {
    Talk talk({.run_id = "run", .nodes_min = 5, .nodes_max = 5});
    CHECK(told(talk, 1, "a", "").empty());
    CHECK(told(talk, 2, "b", "train.py --lr 1").empty());
    CHECK(told(talk, 3, "c", "train.py --lr 1").empty());
    CHECK(told(talk, 4, "d", "").empty());
    CHECK(told(talk, 5, "e", "train.py --lr 2") ==
          "e runs \"train.py --lr 2\" and b \"train.py --lr 1\"; nodes of one run should run the "
          "same");
  }

  TEST_CASE("of long commands the part is shown in which they differ") {
    const std::string same = "train.py" + std::string(50, 'x') + " --model=" + std::string(30, 'y');
    const std::string end(200, 'z');
    CHECK(describe_difference("a", same + " --lr=1 " + end, "b", same + " --lr=2") ==
          "a runs \"...--model=" + std::string(30, 'y') + " --lr=1 " + std::string(74, 'z') +
              "...\" and b \"...--model=" + std::string(30, 'y') +
              " --lr=2\"; nodes of one run should run the same");
  }

  TEST_CASE("a command that goes on beyond another is shown to its end") {
    CHECK(describe_difference("a", "train.py", "b", "train.py --debug") ==
          "a runs \"train.py\" and b \"train.py --debug\"; nodes of one run should run the same");
  }

  TEST_CASE("the end of a very long command is told by its hash") {
    const std::string shared(kCommandBytesMax, 'x');
    CHECK(bounded_command(shared) == shared);
    const auto one = bounded_command(shared + "1");
    CHECK(one.size() < kCommandBytesMax + 60);
    CHECK(one.starts_with(shared + "... (1025 bytes, hash "));
    CHECK(one != bounded_command(shared + "2"));
  }
}

}  // namespace run_command_test
