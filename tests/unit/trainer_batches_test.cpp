#include "trainers/trainer/batches.hpp"
#include "trainers/trainer/dataset.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

namespace trainer_batches_test {

using trainer::BatchOptions;
using trainer::EpochBatches;

namespace {

struct Case {
  std::int64_t samples;
  int world_size;
  std::int64_t batch_size;
  std::int64_t accumulation;
  std::int64_t global_batch = 0;
};

// Tails of every kind: none, smaller than a worker's share, uneven, empty on some or on most ranks,
// fewer samples than workers.
const std::vector<Case> kCases = {{64, 4, 8, 2},
                                  {60000, 4, 64, 1},
                                  {60000, 7, 64, 3},
                                  {65, 4, 8, 2},
                                  {67, 4, 8, 2},
                                  {3, 4, 8, 1},
                                  {1, 8, 1, 5},
                                  {100, 1, 30, 1},
                                  {1000, 3, 7, 2},
                                  {5, 5, 1, 1},
                                  {6, 5, 1, 1},
                                  // Global batches that workers cannot share evenly, and one that
                                  // is smaller than the number of workers.
                                  {1000, 3, 7, 1, 100},
                                  {1000, 4, 64, 1, 50},
                                  {67, 5, 2, 1, 3},
                                  {67, 2, 100, 1, 100}};

EpochBatches batches_of(const Case& c, int rank, std::int64_t epoch = 3) {
  return EpochBatches({.samples = c.samples,
                       .world_size = c.world_size,
                       .rank = rank,
                       .batch_size = c.batch_size,
                       .gradient_accumulation = c.accumulation,
                       .global_batch = c.global_batch,
                       .seed = 11},
                      epoch);
}

std::vector<std::int64_t> sorted(std::vector<std::int64_t> values) {
  std::sort(values.begin(), values.end());
  return values;
}

/// The samples of all workers in one step, sorted.
std::vector<std::int64_t> window(const Case& c, std::int64_t step) {
  std::vector<std::int64_t> all;
  for (int rank = 0; rank < c.world_size; ++rank) {
    const EpochBatches batches = batches_of(c, rank);
    const auto own = batches.step_samples(step);
    all.insert(all.end(), own.begin(), own.end());
  }
  return sorted(all);
}

}  // namespace

TEST_SUITE("trainer batches") {
  TEST_CASE("trainer batches: each sample is used exactly once per epoch over all workers") {
    for (const Case& c : kCases) {
      CAPTURE(c.samples);
      CAPTURE(c.world_size);
      std::vector<int> uses(static_cast<std::size_t>(c.samples));
      std::int64_t announced = 0;
      const std::int64_t steps = batches_of(c, 0).steps();
      for (int rank = 0; rank < c.world_size; ++rank) {
        const EpochBatches batches = batches_of(c, rank);
        CHECK(batches.steps() == steps);
        for (std::int64_t step = 0; step < steps; ++step) {
          if (rank == 0) announced += batches.global_samples(step);
          for (std::int64_t pass = 0; pass < batches.passes(); ++pass) {
            for (const auto index : batches.micro_batch(step, pass)) {
              ++uses[static_cast<std::size_t>(index)];
            }
          }
        }
      }
      CHECK(announced == c.samples);
      CHECK(std::all_of(uses.begin(), uses.end(), [](int count) { return count == 1; }));
    }
  }

  TEST_CASE("trainer batches: the ranks' shares of a step add up to its global sample count") {
    for (const Case& c : kCases) {
      const EpochBatches first = batches_of(c, 0);
      for (std::int64_t step = std::max<std::int64_t>(first.steps() - 2, 0); step < first.steps();
           ++step) {
        CHECK(static_cast<std::int64_t>(window(c, step).size()) == first.global_samples(step));
      }
    }
  }

  TEST_CASE("trainer batches: equal products of workers and batch size have equal samples") {
    for (std::int64_t step = 0; step < 8; ++step) {
      const auto alone = window({1001, 1, 128, 1}, step);
      CHECK(window({1001, 2, 64, 1}, step) == alone);
      CHECK(window({1001, 4, 32, 1}, step) == alone);
      CHECK(window({1001, 4, 16, 2}, step) == alone);
    }
  }

  TEST_CASE("trainer batches: a fixed global batch has the same samples for any worker count") {
    for (std::int64_t step = 0; step < 11; ++step) {
      const auto alone = window({1001, 1, 8, 1, 100}, step);
      CHECK(alone.size() == (step < 10 ? 100 : 1));
      for (const int workers : {2, 3, 4, 7})
        CHECK(window({1001, workers, 8, 1, 100}, step) == alone);
    }
  }

  TEST_CASE("trainer batches: epochs have different orders") {
    const Case c = {1000, 2, 10, 1};
    const auto of_epoch = [&](std::int64_t epoch) {
      const EpochBatches batches = batches_of(c, 0, epoch);
      const auto samples = batches.step_samples(0);
      return std::vector(samples.begin(), samples.end());
    };
    CHECK(of_epoch(0) == of_epoch(0));
    CHECK(of_epoch(0) != of_epoch(1));
  }
}

TEST_SUITE("trainer data") {
  TEST_CASE("trainer data: a batch has the requested scaled samples with labels and targets") {
    const trainer::Dataset dataset = {.samples = 2,
                                      .features = 2,
                                      .outputs = 3,
                                      .inputs = {0, 10, 20, 30},
                                      .scale = 0.5F,
                                      .shift = -1,
                                      .labels = {2, 0},
                                      .targets = {}};
    trainer::Batch batch;
    const std::vector<std::int64_t> indices = {1, 0, 1};
    trainer::gather(dataset, indices, batch);
    CHECK(batch.inputs == std::vector<float>{9, 14, -1, 4, 9, 14});
    CHECK(batch.labels == std::vector<std::int32_t>{0, 2, 0});
    CHECK(batch.targets == std::vector<float>{1, 0, 0, 0, 0, 1, 1, 0, 0});
    // 16 shades of equal width.
    batch.as_tokens = true;
    trainer::gather(dataset, indices, batch);
    CHECK(batch.inputs.empty());
    CHECK(batch.tokens == std::vector<std::int32_t>{1, 16 + 1, 0, 16 + 0, 1, 16 + 1});
  }

  TEST_CASE("trainer data: random data depends only on the seed") {
    const auto make = [](std::uint64_t seed) {
      return trainer::make_random_data(
          {.train_samples = 8, .test_samples = 4, .features = 3, .outputs = 2, .seed = seed});
    };
    CHECK(make(1).train.inputs == make(1).train.inputs);
    CHECK(make(1).train.targets == make(1).train.targets);
    CHECK(make(1).train.inputs != make(2).train.inputs);
    CHECK(make(1).test.targets.size() == 8);
  }
}

}  // namespace trainer_batches_test
