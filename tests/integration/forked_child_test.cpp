// Forked children of a process with groups, stores, loaders and checkpoints: they cannot use their
// copies, which are destroyed without effects, and the parents are not affected.
#include "tests/support/group_processes.hpp"
#include "tests/support/rank_processes.hpp"
#include "tests/support/temporary_folder.hpp"
#include <ddprun/checkpoint.hpp>
#include <ddprun/data_loader.hpp>
#include <ddprun/data_parallel.hpp>
#include <ddprun/gradient_reducer.hpp>
#include <ddprun/process_group.hpp>
#include <ddprun/store.hpp>

#include <doctest/doctest.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace forked_child_test {

using namespace ddprun;
using namespace ddprun::test;
using namespace std::chrono_literals;

namespace {

const std::string kOfParent =
    "usage: process group \"default\": it belongs to the parent of this process; a forked child "
    "must create its own group";

/// Returns the output of a forked copy of this process that has exited with 0.
std::string in_child(const std::function<std::string()>& body) {
  RankProcesses child(1, [&](int) { return body(); });
  const RankEnd end = child.wait(0);
  return end.exited_with(0) ? end.output : "ended with status " + std::to_string(end.status);
}

/// Returns the output of the child of a rank with a pending call, if the call has the right sum
/// afterwards.
std::string fork_within_call(const StoreEndpoint& endpoint, int rank, const std::string& backend) {
  const auto deadline = Deadline::after(60s);
  auto store = Store::connect(endpoint, deadline);
  auto options = small_group();
  options.backend = backend;
  std::optional group(ProcessGroup::create(make_env(endpoint, rank, 2), options));
  auto memory = group->allocate(64);
  std::int32_t sum = 1;
  const Buffer buffer = as_buffer(&sum, 1);
  if (rank == 1) store.get("rank 0 has forked", deadline);
  std::optional<Work> work(group->all_reduce(buffer));
  if (rank == 1) work->wait();
  std::string failures_in_child = in_child([&] {
    std::string failures = describe_failure([&] { group->barrier().wait(); });
    if (rank == 0 && describe_failure([&] { work->wait(); }) != failures)
      return std::string("waited");
    if (describe_failure([&] { group->allocate(1); }) != failures) return std::string("allocated");
    group->abort("a child must not end its parent's group");
    memory.reset();
    work.reset();
    group.reset();
    return failures;
  });
  if (rank == 0) store.set("rank 0 has forked", "", deadline);
  work->wait();
  group->barrier().wait();
  return sum == 2 ? failures_in_child : "wrong sum " + std::to_string(sum);
}

}  // namespace

TEST_SUITE("forked child") {
  TEST_CASE("fork: the child of a rank cannot use groups but the rank still can") {
    std::vector<std::string> backends = {"host"};
    for (const auto& backend : available_backends()) {
      if (backend.name == "gloo" && backend.unavailable_reason.find("module") == std::string::npos)
        backends.push_back(backend.name);
    }
    const StoreProcess store;
    for (const auto& backend : backends) {
      CAPTURE(backend);
      store.connect().erase("rank 0 has forked", Deadline::after(60s));
      RankProcesses ranks(
          2, [&](int rank) { return fork_within_call(store.endpoint(), rank, backend); });
      for (const int rank : {0, 1}) CHECK(ranks.wait(rank).output == kOfParent);
    }
  }

  TEST_CASE("fork: a child cannot use groups of its parent's threads") {
    auto groups = ProcessGroup::create_in_process(2);
    CHECK(in_child([&] {
            const auto message = describe_failure([&] { groups[0].barrier().wait(); });
            groups.clear();
            return message;
          }) == kOfParent);
    const Work first = groups[0].barrier();
    groups[1].barrier().wait();
    first.wait();
  }

  TEST_CASE("fork: a reducer step fails in the child and completes in the parent") {
    auto groups = ProcessGroup::create_in_process(2);
    std::vector<std::optional<GradientReducer>> reducers(2);
    float values[] = {1, 1};
    ReducerOptions options;
    options.verify_parameters = false;
    options.broadcast_state = false;
    for (std::size_t rank = 0; rank < 2; ++rank) {
      reducers[rank].emplace(groups[rank],
                             std::vector<Parameter>{{"weight", as_buffer(&values[rank], 1)}},
                             std::vector<Buffer>{}, options);
      reducers[rank]->begin();
      *static_cast<float*>(reducers[rank]->gradient(0).data) = static_cast<float>(rank);
    }
    CHECK(in_child([&] {
            reducers[0]->ready(0);
            const auto message = describe_failure([&] { reducers[0]->finish(); });
            reducers.clear();
            groups.clear();
            return message;
          }) == kOfParent);
    for (auto& reducer : reducers) reducer->ready(0);
    for (auto& reducer : reducers) reducer->finish();
    CHECK(*static_cast<float*>(reducers[0]->gradient(0).data) == 0.5F);
  }

  TEST_CASE("fork: a child cannot use its parent's store connection") {
    const StoreProcess server;
    std::optional store(server.connect());
    const auto deadline = Deadline::after(60s);
    const auto message = in_child([&] {
      std::string failure = describe_failure([&] { store->set("key", "child", deadline); });
      store.reset();
      return failure;
    });
    CHECK(message ==
          "usage: store at 127.0.0.1:" + std::to_string(server.endpoint().port) +
              ": the connection belongs to the parent of this process; connect a store in "
              "the forked child");
    store->set("key", "parent", deadline);
    CHECK(store->get("key", deadline) == "parent");
  }

  TEST_CASE("fork: a child cannot use or wait for its parent's loaders and replicas") {
    auto groups = ProcessGroup::create_in_process(1);
    std::optional<DataLoader> loader;
    loader.emplace(
        groups[0], [] { return std::optional(std::vector<std::int64_t>{1}); },
        [](const auto&, auto) { return std::size_t{0}; }, DataLoaderOptions{.batch_bytes_max = 8});
    std::optional batch(loader->next());
    std::optional<ReplicaThreads> replicas(2);
    CHECK(in_child([&] {
            const auto message = describe_failure([&] { loader->next(); }) + "\n" +
                                 describe_failure([&] { replicas->apply([](Replica&) {}); });
            batch.reset();
            loader.reset();
            replicas.reset();
            groups.clear();
            return message;
          }) ==
          "usage: data loader: it belongs to the parent of this process; make a loader in the "
          "forked child\nusage: DataParallel: it belongs to the parent of this process; make one "
          "in the forked child");
    CHECK(loader->next());
    replicas->apply([](Replica&) {});
  }

  TEST_CASE("fork: a child does not write to its parent's checkpoint directory") {
    const TemporaryFolder folder;
    std::optional<CheckpointDirectory> checkpoints(folder.path());
    checkpoints->save({.step = 1, .sections = {}});
    const auto message = in_child([&] {
      std::string failure =
          describe_failure([&] { checkpoints->save({.step = 2, .sections = {}}); });
      checkpoints.reset();
      return failure;
    });
    CHECK(message == "usage: checkpoint directory " + folder.path().string() +
                         ": its lock belongs to the parent of this process; save checkpoints there "
                         "only");
    checkpoints->save({.step = 3, .sections = {}});
  }
}

}  // namespace forked_child_test
