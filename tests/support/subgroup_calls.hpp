// Test of subgroups for every backend: several of them are used concurrently, also with their
// parent group and nested.
#pragma once

#include "tests/support/random_calls.hpp"
#include <ddprun/process_group.hpp>

#include <deque>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace ddprun::test {

/// The ranks below `size` that leave `rest` when divided by `step`.
inline std::vector<int> every(int step, int rest, int size) {
  std::vector<int> ranks;
  for (int rank = rest; rank < size; rank += step) ranks.push_back(rank);
  return ranks;
}

/// Makes random calls in all of `groups` at the same time, with a thread for each. Returns "ok", or
/// the first mismatch.
inline std::string run_at_once(std::vector<ProcessGroup> groups, unsigned seed,
                               Arithmetic arithmetic, int calls) {
  std::vector<std::string> results(groups.size());
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    threads.emplace_back([&, i] {
      try {
        // All ranks of a group need the same seed.
        const auto own = seed + static_cast<unsigned>(groups[i].workers().front());
        results[i] = RandomCalls(groups[i], own, {}, arithmetic).run(calls);
      } catch (const std::exception& error) {
        results[i] = error.what();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  for (std::size_t i = 0; i < groups.size(); ++i) {
    if (results[i] != "ok") return groups[i].name() + ": " + results[i];
  }
  return "ok";
}

/// To be called on every rank of `world`.
inline std::string exercise_subgroups(ProcessGroup world, unsigned seed, Arithmetic arithmetic,
                                      int calls = 40) {
  const int size = world.size();
  std::vector<ProcessGroup> groups = {world};
  for (const int rest : {0, 1}) {
    if (rest >= size) break;
    const auto ranks = every(2, rest, size);
    auto group = world.new_group(ranks, rest == 0 ? "even" : "odd");
    const bool is_in = world.rank() % 2 == rest;
    if (group.has_value() != is_in) return "a group has another rank than it should";
    if (!group) continue;
    if (group->workers() != ranks || ranks[static_cast<std::size_t>(group->rank())] != world.rank())
      return "the ranks of a group are others than were asked for";
    groups.push_back(*group);
    // A subgroup of it, without its first rank.
    if (group->size() > 1) {
      const auto inner = group->new_group(every(1, 1, group->size()));
      if (inner) groups.push_back(*inner);
    }
  }
  return run_at_once(std::move(groups), seed, arithmetic, calls);
}

}  // namespace ddprun::test
