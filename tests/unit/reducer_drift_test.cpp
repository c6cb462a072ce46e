#include "tests/support/rank_errors.hpp"
#include "tests/support/reducer_model.hpp"
#include "worker_runtime/ddp/checksum.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <mutex>
#include <set>

namespace reducer_drift_test {

using namespace ddprun;
using namespace ddprun::test;

namespace {

ddprun::ReducerOptions checking(std::int64_t steps) {
  auto options = kSmallBuckets;
  options.drift_check_steps = steps;
  return options;
}

/// Ten steps in which `rank`'s parameter 2 changes by one bit before step `step` (from 1).
std::vector<std::string> errors_after_drift(int ranks, int rank, int step, std::int64_t every) {
  return errors_of_ranks(ranks, [=](ProcessGroup& group) {
    Model model(1);
    GradientReducer reducer(group, model.parameters, {}, checking(every));
    for (int s = 1; s <= 10; ++s) {
      if (group.rank() == rank && s == step) model.values[2][7] = std::nextafter(1.0F, 2.0F);
      reducer.zero_gradients();
      reducer.begin();
      backward(reducer, group.rank(), s);
      reducer.finish();
    }
  });
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_SUITE("reducer's drift check") {
  TEST_CASE("drift check: ranks with equal parameters pass") {
    CHECK(errors_after_drift(3, -1, 0, 1) == std::vector<std::string>(3));
  }

  TEST_CASE("drift check: one different bit is reported with rank and parameter") {
    for (const auto& error : errors_after_drift(4, 2, 4, 3)) {
      CAPTURE(error);
      CHECK(contains(error,
                     "GradientReducer: drift in step 6: the ranks differ: the checksum of "
                     "parameter \"p2\" is "));
      CHECK(contains(error, " on rank 2, "));
    }
  }

  TEST_CASE("drift check: a difference on rank 0 is reported for all other ranks") {
    for (const auto& error : errors_after_drift(3, 0, 1, 1)) {
      CHECK(contains(error, "drift in step 1: "));
      CHECK(contains(error, " on ranks 1 and 2, "));
    }
  }

  TEST_CASE("drift check: a disabled check reports nothing") {
    CHECK(errors_after_drift(2, 1, 2, 0) == std::vector<std::string>(2));
  }

  TEST_CASE("drift check: each check costs one collective of 8 bytes") {
    std::mutex mutex;
    std::vector<std::size_t> gathered;
    ddprun::GroupOptions options;
    options.on_collective = [&](const ddprun::CollectiveRecord& record) {
      const std::lock_guard lock(mutex);
      if (record.name == "all_gather") gathered.push_back(record.bytes);
    };
    const auto errors = errors_of_ranks(
        2,
        [](ProcessGroup& group) {
          Model model;
          auto reducer_options = checking(4);
          reducer_options.verify_parameters = false;
          GradientReducer reducer(group, model.parameters, {}, reducer_options);
          for (int step = 0; step < 9; ++step) {
            reducer.begin();
            backward(reducer, group.rank(), step);
            reducer.finish();
          }
        },
        options);
    CHECK(errors == std::vector<std::string>(2));
    CHECK(gathered == std::vector<std::size_t>(2 * 2, 8));
  }

  TEST_CASE("drift check: the check is rejected with a hook that lets ranks differ") {
    auto groups = ProcessGroup::create_in_process(1);
    Model model;
    auto options = checking(1);
    options.hook = ddprun::BucketHook{.name = "none",
                                      .start = [](const ddprun::BucketView&, ddprun::Work&) {},
                                      .keeps_ranks_equal = false};
    CHECK(what_of([&] { GradientReducer(groups[0], model.parameters, {}, options); }) ==
          "GradientReducer: drift_check_steps with bucket hook \"none\", which lets the ranks "
          "drift apart");
    options = checking(-1);
    CHECK(what_of([&] { GradientReducer(groups[0], model.parameters, {}, options); }) != "");
  }

  TEST_CASE("drift check: the checksum depends on every bit and the length and the seed") {
    for (const std::size_t size : {0u, 1u, 7u, 31u, 32u, 33u, 100u}) {
      std::vector<std::byte> bytes(size);
      std::set<std::uint64_t> sums = {ddprun::checksum(bytes, 1), ddprun::checksum(bytes, 2)};
      for (std::size_t bit = 0; bit < 8 * size; ++bit) {
        bytes[bit / 8] ^= std::byte{1} << (bit % 8);
        sums.insert(ddprun::checksum(bytes, 1));
        bytes[bit / 8] ^= std::byte{1} << (bit % 8);
      }
      bytes.push_back({});
      sums.insert(ddprun::checksum(bytes, 1));
      CHECK(sums.size() == 3 + 8 * size);
    }
  }
}

}  // namespace reducer_drift_test
