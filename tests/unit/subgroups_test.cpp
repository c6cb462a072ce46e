// Subgroups with ranks that are threads. Processes and the other backends:
// tests/integration/subgroups_test.cpp.
#include "tests/support/rank_errors.hpp"
#include "tests/support/rank_threads.hpp"
#include "tests/support/subgroup_calls.hpp"
#include "worker_runtime/backends/group_place.hpp"

#include <doctest/doctest.h>

#include <random>
#include <string>
#include <vector>

namespace subgroups_test {

using namespace ddprun;
using namespace ddprun::test;
using namespace std::chrono_literals;

namespace {

GroupOptions small_groups(Deadline::Duration timeout = 60s) {
  GroupOptions options;
  options.arena_bytes = 8 << 20;
  options.collective_timeout = timeout;
  return options;
}

/// Exceptions of new_group on each rank.
std::vector<std::string> errors_of_new_group(int size, const std::vector<int>& ranks,
                                             const std::string& name = {}) {
  return errors_of_ranks(
      size, [&](ProcessGroup& group) { group.new_group(ranks, name); }, small_groups());
}

}  // namespace

TEST_SUITE("subgroups") {
  TEST_CASE("subgroups: overlapping and nested groups work concurrently with the default group") {
    const unsigned seed = std::random_device{}();
    CAPTURE(seed);
    for (const int size : {1, 2, 5}) {
      run_ranks(
          size,
          [&](ProcessGroup& world) {
            CHECK(exercise_subgroups(world, seed, Arithmetic::in_rank_order) == "ok");
          },
          small_groups());
    }
  }

  TEST_CASE("subgroups: the creation of a group is recorded and compared like a collective") {
    auto options = small_groups();
    std::vector<std::string> names;
    options.on_collective = [&](const ddprun::CollectiveRecord& record) {
      names.push_back(record.name);
    };
    run_ranks(
        1, [](ProcessGroup& group) { group.new_group({0}); }, options);
    CHECK(names == std::vector<std::string>{"new_group"});
    const auto errors = errors_of_ranks(
        2,
        [](ProcessGroup& group) {
          if (group.rank() == 0) group.new_group({0, 1});
          group.barrier().wait();
        },
        small_groups());
    for (const auto& error : errors) {
      CHECK_MESSAGE(
          error.find("collective 0 of group \"default\": rank 0 called new_group() but rank 1 "
                     "called barrier()") == 0,
          error);
    }
  }

  TEST_CASE("subgroups: different creations on ranks are reported with the ranks") {
    const auto errors = errors_of_ranks(
        3,
        [](ProcessGroup& group) {
          const std::vector<int> first = {0, 1};
          const std::vector<int> second = {1, 2};
          group.new_group(group.rank() == 2 ? second : first, "a");
        },
        small_groups());
    for (const auto& error : errors) {
      CHECK(error.find(
                "new_group: rank 0 creates group \"default/a\" of ranks 0-1, but rank 2 creates "
                "group \"default/a\" of ranks 1-2 (all ranks") == 0);
    }
  }

  TEST_CASE("subgroups: long rank lists that differ at the end are distinguished") {
    const auto errors = errors_of_ranks(
        100,
        [](ProcessGroup& group) { group.new_group(every(2, 0, group.rank() == 7 ? 98 : 100)); },
        small_groups());
    for (const auto& error : errors) CHECK(error.find("new_group: rank 0 creates group ") == 0);
  }

  TEST_CASE("subgroups: invalid rank lists are rejected with the reason") {
    CHECK(errors_of_new_group(2, {})[0] == "new_group: a group needs at least one rank");
    CHECK(errors_of_new_group(2, {0, 2})[0] == "new_group: rank 2 is not within 0..1");
    CHECK(errors_of_new_group(2, {-1})[0] == "new_group: rank -1 is not within 0..1");
    CHECK(errors_of_new_group(2, {1, 0})[1] ==
          "new_group: ranks must be ascending and unique: 0 follows 1");
    CHECK(errors_of_new_group(2, {1, 1})[1] ==
          "new_group: ranks must be ascending and unique: 1 follows 1");
  }

  TEST_CASE("subgroups: invalid names and options are rejected on all ranks without effect") {
    const std::string room(kGroupNameBytesMax - std::string("default/").size(), 'n');
    for (const auto& [name, problem] : std::vector<std::pair<std::string, std::string>>{
             {room + "n", "its name has 257 bytes, at most 256 are possible"},
             {"a\nb", "its name has a control character"},
         }) {
      CHECK(errors_of_new_group(3, {0, 1}, name) ==
            std::vector<std::string>(3, "new_group: " + problem));
    }
    const auto errors = errors_of_ranks(
        3,
        [&](ProcessGroup& group) {
          auto invalid = small_groups();
          if (group.rank() == 2) invalid.join_timeout = 0s;
          try {
            group.new_group({0, 1}, room, invalid);
          } catch (const Error& error) {
            group.new_group({0, 1}, room);  // the name is still new
            throw;
          }
        },
        small_groups());
    CHECK(errors == std::vector<std::string>(3,
                                             "new_group: rank 2 cannot create its group: "
                                             "join_timeout has to be above 0"));
  }

  TEST_CASE("subgroups: a name that was already used is rejected") {
    const auto errors = errors_of_ranks(
        2,
        [](ProcessGroup& group) {
          const auto first = group.new_group({0, 1}, "twice");
          CHECK(first->name() == "default/twice");
          group.new_group({0}, "twice");
        },
        small_groups());
    for (const auto& error : errors)
      CHECK(error == "new_group: there has been a group \"default/twice\" already");
  }

  TEST_CASE("subgroups: an unnamed group is named with a unique number") {
    run_ranks(
        2,
        [](ProcessGroup& group) {
          CHECK(group.new_group({0, 1}, "1")->name() == "default/1");
          CHECK(group.new_group({0, 1})->name() == "default/0");
          CHECK(group.new_group({0, 1})->name() == "default/2");
        },
        small_groups());
  }

  TEST_CASE("subgroups: a creation that fails on one rank fails on all ranks") {
    const auto errors = errors_of_ranks(
        3,
        [](ProcessGroup& group) {
          const auto check_error = [&](const std::string& what, const std::vector<int>& ranks,
                                       const std::string& name) {
            try {
              group.new_group(ranks, name);
            } catch (const Error& error) {
              CHECK(error.what() == what);
              return;
            }
            FAIL("no error");
          };
          const bool is_second = group.rank() == 1;
          group.new_group({0, 1}, "a");
          check_error(
              "new_group: rank 1 cannot create its group: there has been a group \"default/a\" "
              "already",
              {0, 1}, is_second ? "a" : "b");
          check_error("new_group: rank 1 cannot create its group: rank 3 is not within 0..2",
                      {0, is_second ? 3 : 2}, "b");
          group.new_group({0, 2}, "b");
          throw Error(Errc::closed, "all as expected");
        },
        small_groups());
    for (const auto& error : errors) CHECK(error == "all as expected");
  }

  TEST_CASE("subgroups: errors name ranks of the default group") {
    run_ranks(
        4,
        [](ProcessGroup& world) {
          auto group = world.new_group({1, 3}, "pair", small_groups(200ms));
          if (!group) return;
          if (group->rank() == 1) {
            world.recv(Buffer{}, 1).wait();  // until the wait of rank 1 has timed out
            return;
          }
          try {
            group->barrier().wait();
          } catch (const Error& error) {
            CHECK(std::string(error.what())
                      .find("barrier(), collective 0 of group \"default/pair\": rank(s) 3 had not "
                            "entered it") == 0);
          }
          world.send(Buffer{}, 3).wait();
        },
        small_groups());
  }
}

TEST_SUITE("group place") {
  TEST_CASE("group place: ranks and nodes and neighbours are renumbered within the group") {
    WorkerEnv env;
    env.rank = 5;
    env.world_size = 8;
    env.local_rank = 1;
    env.local_world_size = 4;
    env.node_rank = 1;
    env.node_count = 2;
    const std::vector<int> nodes = {0, 0, 0, 0, 1, 1, 1, 1};
    const auto all = place_among_all(env);
    CHECK(all.names().name(5) == "rank 5");
    const auto some = place_among(all, {0, 2, 4, 5, 7}, nodes);
    CHECK(some.workers == std::vector<int>{0, 2, 4, 5, 7});
    CHECK(some.world_size == 8);
    CHECK(some.env.rank == 3);
    CHECK(some.env.world_size == 5);
    CHECK(some.env.local_rank == 1);
    CHECK(some.env.local_world_size == 3);
    CHECK(some.env.node_rank == 1);
    CHECK(some.env.node_count == 2);
    // On one node, within the one before.
    const auto two = place_among(some, {2, 3}, {0, 0, 1, 1, 1});
    CHECK(two.workers == std::vector<int>{4, 5});
    CHECK(two.env.rank == 1);
    CHECK(two.env.node_rank == 0);
    CHECK(two.env.node_count == 1);
    CHECK(two.names().from(1).list({0}) == "5");
  }
}

}  // namespace subgroups_test
