#include <ddprun/distributed_sampler.hpp>
#include <ddprun/error.hpp>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <fstream>
#include <limits>
#include <numeric>
#include <string>

namespace distributed_sampler_test {

using ddprun::DistributedSampler;
using ddprun::Error;
using ddprun::kPermutationMax;
using ddprun::random_permutation;

namespace {

using Indices = std::vector<std::int64_t>;

nlohmann::json read_vectors() {
  std::ifstream file(DDPRUN_SOURCE_DIR "/tests/unit/data/sampler_vectors.json");
  REQUIRE(file);
  return nlohmann::json::parse(file);
}

/// 64-bit FNV-1a over the items as 8 little-endian bytes each, as in make_sampler_vectors.py.
std::uint64_t fnv1a(const Indices& items) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const auto item : items) {
    for (int shift = 0; shift < 64; shift += 8) {
      hash = (hash ^ ((static_cast<std::uint64_t>(item) >> shift) & 0xff)) * 0x100000001b3;
    }
  }
  return hash;
}

void check_items(const Indices& actual, const nlohmann::json& expected) {
  if (expected.contains("items")) {
    CHECK(actual == expected["items"].get<Indices>());
    return;
  }
  REQUIRE(actual.size() == expected["count"].get<std::size_t>());
  const auto first = expected["first"].get<Indices>();
  CHECK(std::equal(first.begin(), first.end(), actual.begin()));
  CHECK(fnv1a(actual) == expected["fnv1a"].get<std::uint64_t>());
}

}  // namespace

TEST_SUITE("distributed sampler") {
  TEST_CASE("distributed sampler: permutations equal PyTorch's") {
    const auto vectors = read_vectors();
    REQUIRE(vectors["permutations"].size() > 50);
    for (const auto& expected : vectors["permutations"]) {
      CAPTURE(expected.dump());
      check_items(random_permutation(expected["n"], expected["seed"]), expected);
    }
  }

  TEST_CASE("distributed sampler: indices equal those of PyTorch's DistributedSampler") {
    const auto vectors = read_vectors();
    REQUIRE(vectors["samplers"].size() > 100);
    for (const auto& expected : vectors["samplers"]) {
      CAPTURE(expected.dump());
      const DistributedSampler sampler(expected["n"], expected["world_size"], expected["rank"],
                                       {.shuffle = expected["shuffle"],
                                        .seed = expected["seed"],
                                        .drop_last = expected["drop_last"]});
      CHECK(sampler.size() == expected["size"].get<std::int64_t>());
      check_items(sampler.indices(expected["epoch"]), expected);
    }
  }

  TEST_CASE("distributed sampler: a rank has every world_size-th index of the global order") {
    for (const bool drop_last : {false, true}) {
      for (const std::int64_t samples : {0, 1, 2, 9, 10, 12}) {
        for (const int world_size : {1, 2, 4, 5}) {
          CAPTURE(samples);
          CAPTURE(world_size);
          const ddprun::SamplerOptions options{.seed = 3, .drop_last = drop_last};
          const auto order = DistributedSampler(samples, world_size, 0, options).global_order(1);
          for (int rank = 0; rank < world_size; ++rank) {
            const DistributedSampler sampler(samples, world_size, rank, options);
            REQUIRE(order.size() == static_cast<std::size_t>(sampler.size() * world_size));
            Indices expected;
            for (std::size_t i = static_cast<std::size_t>(rank); i < order.size();
                 i += static_cast<std::size_t>(world_size)) {
              expected.push_back(order[i]);
            }
            CHECK(sampler.indices(1) == expected);
          }
        }
      }
    }
  }

  TEST_CASE("distributed sampler: an evenly divisible data set is used exactly once per epoch") {
    auto order = DistributedSampler(1000, 8, 0).global_order(4);
    std::sort(order.begin(), order.end());
    Indices all(1000);
    std::iota(all.begin(), all.end(), 0);
    CHECK(order == all);
  }

  TEST_CASE("distributed sampler: only the sum of seed and epoch matters") {
    CHECK(DistributedSampler(50, 2, 1, {.seed = 0}).indices(5) ==
          DistributedSampler(50, 2, 1, {.seed = 5}).indices(0));
  }

  TEST_CASE("distributed sampler: a sum of seed and epoch beyond 64 bits is rejected") {
    const auto seed = std::numeric_limits<std::uint64_t>::max();
    const DistributedSampler sampler(10, 2, 0, {.seed = seed});
    CHECK_THROWS_WITH_AS(sampler.indices(1),
                         "seed 18446744073709551615 plus epoch 1 is beyond 64 bits", Error);
    CHECK(sampler.indices(0).size() == 5);
    CHECK(DistributedSampler(10, 2, 0, {.shuffle = false, .seed = seed}).indices(1).size() == 5);
  }

  TEST_CASE("distributed sampler: ranks outside the world are rejected") {
    for (const int rank : {-1, 2, 3}) CHECK_THROWS_AS(DistributedSampler(10, 2, rank), Error);
    CHECK_THROWS_WITH_AS(DistributedSampler(10, 0, 0), "sampler: 0 workers: must be at least 1",
                         Error);
    CHECK_THROWS_WITH_AS(DistributedSampler(10, 2, 2),
                         "sampler: rank 2 of 2 workers: must be 0 to 1", Error);
  }

  TEST_CASE("distributed sampler: sizes that PyTorch versions permute differently are rejected") {
    CHECK_THROWS_AS(DistributedSampler(-1, 1, 0), Error);
    CHECK_THROWS_AS(DistributedSampler(kPermutationMax, 1, 0), Error);
    CHECK_NOTHROW(DistributedSampler(kPermutationMax - 1, 1, 0));
    CHECK_THROWS_AS(random_permutation(-1, 0), Error);
    CHECK_THROWS_AS(random_permutation(kPermutationMax, 0), Error);
  }

  TEST_CASE("distributed sampler: memory does not grow with the world size") {
    const int world_size = std::numeric_limits<int>::max();
    CHECK(DistributedSampler(3, world_size, 4, {.shuffle = false}).indices(0) == Indices{1});
    CHECK(DistributedSampler(3, world_size, 4, {.drop_last = true}).indices(0).empty());
  }
}

}  // namespace distributed_sampler_test
