#include "tests/support/thread_limit.hpp"
#include <ddprun/data_loader.hpp>
#include <ddprun/elastic_sampler.hpp>
#include <ddprun/error.hpp>

#include <doctest/doctest.h>

#include <atomic>
#include <cstring>
#include <future>
#include <mutex>
#include <set>
#include <thread>

namespace data_loader_test {

using ddprun::DataLoader;
using ddprun::DataLoaderOptions;
using ddprun::Deadline;
using ddprun::Errc;
using ddprun::Error;
using ddprun::LoadedBatch;
using ddprun::ProcessGroup;
using namespace std::chrono_literals;

namespace {

using Samples = std::vector<std::int64_t>;

ProcessGroup group_of_one() {
  return ProcessGroup::create_in_process(1).front();
}

/// Batches {0, 1, 2}, {3, 4, 5}, ...
DataLoader::List counting(int batches) {
  return [batches, next = 0]() mutable -> std::optional<Samples> {
    if (next == batches) return std::nullopt;
    const std::int64_t first = 3 * next++;
    return Samples{first, first + 1, first + 2};
  };
}

/// Each sample is ten times its number.
std::size_t load_tens(std::span<const std::int64_t> samples, std::span<std::byte> memory) {
  auto* at = memory.data();
  for (const auto sample : samples) {
    const std::int64_t value = 10 * sample;
    std::memcpy(at, &value, sizeof value);
    at += sizeof value;
  }
  return samples.size() * sizeof(std::int64_t);
}

DataLoaderOptions options_of(std::size_t threads, std::size_t prefetch) {
  return {.threads = threads, .prefetch = prefetch, .batch_bytes_max = 64};
}

std::string what_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const std::exception& error) {
    return error.what();
  }
  return {};
}

}  // namespace

TEST_SUITE("data loader") {
  TEST_CASE("data loader: batches arrive in list order with any number of threads") {
    for (const std::size_t threads : {1u, 2u, 7u, 8u}) {
      for (const std::size_t prefetch : {1u, 2u, 5u}) {
        // Later batches load faster than earlier ones.
        const auto load = [](std::span<const std::int64_t> samples, std::span<std::byte> memory) {
          for (std::int64_t i = samples[0]; i < 150; ++i) std::this_thread::yield();
          return load_tens(samples, memory);
        };
        DataLoader loader(group_of_one(), counting(50), load, options_of(threads, prefetch));
        for (std::int64_t batch = 0; batch < 50; ++batch) {
          const auto loaded = loader.next();
          REQUIRE(loaded.has_value());
          CHECK(loaded->samples == Samples{3 * batch, 3 * batch + 1, 3 * batch + 2});
          REQUIRE(loaded->bytes.size() == 24);
          CHECK(reinterpret_cast<std::uintptr_t>(loaded->bytes.data()) % 64 == 0);
          Samples values(3);
          std::memcpy(values.data(), loaded->bytes.data(), 24);
          CHECK(values == Samples{30 * batch, 30 * batch + 10, 30 * batch + 20});
        }
        CHECK_FALSE(loader.next().has_value());
        CHECK_FALSE(loader.next().has_value());
      }
    }
  }

  TEST_CASE("data loader: prefetch limits the number of batches in memory") {
    std::atomic<int> loads = 0;
    const auto load = [&](std::span<const std::int64_t> samples, std::span<std::byte> memory) {
      ++loads;
      return load_tens(samples, memory);
    };
    constexpr int kPrefetch = 3;
    DataLoader loader(group_of_one(), counting(20), load, options_of(2, kPrefetch));
    std::vector<LoadedBatch> held;
    std::set<const void*> places;
    for (int i = 0; i < kPrefetch; ++i) {
      held.push_back(*loader.next());
      places.insert(held.back().bytes.data());
    }
    CHECK(places.size() == kPrefetch);
    CHECK(loads == kPrefetch);
    CHECK(what_of([&] { loader.next(); }) ==
          "data loader: next() while all 3 batches are held: let go of one, or raise prefetch");
    held.erase(held.begin());
    const auto next = loader.next();
    REQUIRE(next.has_value());
    CHECK(next->samples[0] == 9);
    CHECK(places.count(next->bytes.data()) == 1);
    // Memory of a batch in use is not overwritten.
    std::int64_t first = 0;
    std::memcpy(&first, held[0].bytes.data(), sizeof first);
    CHECK(first == 30);
  }

  TEST_CASE("data loader: a batch can outlive its loader") {
    std::optional<LoadedBatch> batch;
    {
      DataLoader loader(group_of_one(), counting(5), load_tens, options_of(2, 2));
      loader.next();
      batch = loader.next();
    }
    std::int64_t first = 0;
    std::memcpy(&first, batch->bytes.data(), sizeof first);
    CHECK(first == 30);
  }

  TEST_CASE("data loader: a load error is thrown for its batch and ends the loader") {
    for (const std::size_t threads : {1u, 4u}) {
      const auto load = [](std::span<const std::int64_t> samples, std::span<std::byte> memory) {
        if (samples[0] == 6) throw std::runtime_error("no such picture");
        return load_tens(samples, memory);
      };
      DataLoader loader(group_of_one(), counting(50), load, options_of(threads, 4));
      CHECK(loader.next()->samples[0] == 0);
      CHECK(loader.next()->samples[0] == 3);
      CHECK(what_of([&] { loader.next(); }) == "no such picture");
      CHECK(what_of([&] { loader.next(); }) == "data loader: next() after a batch that failed");
    }
  }

  TEST_CASE("data loader: a list error is thrown after the preceding batches") {
    const auto list = [next = 0]() mutable -> std::optional<Samples> {
      if (next == 2) throw std::runtime_error("the list is torn");
      return Samples{next++};
    };
    DataLoader loader(group_of_one(), list, load_tens, options_of(3, 2));
    CHECK(loader.next()->samples[0] == 0);
    CHECK(loader.next()->samples[0] == 1);
    CHECK(what_of([&] { loader.next(); }) == "the list is torn");
  }

  TEST_CASE("data loader: a batch can be returned by next() after a timeout") {
    std::promise<void> go;
    const auto gate = go.get_future().share();
    const auto load = [gate](std::span<const std::int64_t> samples, std::span<std::byte> memory) {
      gate.wait();
      return load_tens(samples, memory);
    };
    DataLoader loader(group_of_one(), counting(1), load, options_of(1, 1));
    try {
      loader.next(Deadline::after(10ms));
      CHECK_MESSAGE(false, "no error");
    } catch (const Error& error) {
      CHECK(error.code() == Errc::timeout);
    }
    go.set_value();
    CHECK(loader.next()->samples[0] == 0);
  }

  TEST_CASE("data loader: an unfinished loader can be destroyed and an empty list has no batch") {
    { DataLoader loader(group_of_one(), counting(1000), load_tens, options_of(4, 8)); }
    DataLoader empty(group_of_one(), counting(0), load_tens, options_of(4, 8));
    CHECK_FALSE(empty.next().has_value());
    DataLoader moved = std::move(empty);
    CHECK_FALSE(moved.next().has_value());
  }

  TEST_CASE("data loader: a constructor that cannot start all threads ends them and throws") {
    const auto group = group_of_one();
    const ddprun::test::ThreadLimit limit(2);
    CHECK_THROWS_AS(DataLoader(group, counting(1000), load_tens, options_of(4, 8)),
                    std::system_error);
  }

  TEST_CASE("data loader: too many bytes in a batch and invalid options are rejected") {
    const auto load = [](std::span<const std::int64_t>, std::span<std::byte> memory) {
      return memory.size() + 1;
    };
    DataLoader loader(group_of_one(), counting(1), load, options_of(1, 1));
    CHECK(what_of([&] { loader.next(); }) ==
          "data loader: a batch has 65 bytes, more than batch_bytes_max, 64");
    const auto make = [](std::size_t threads, std::size_t prefetch) {
      return what_of([=] {
        DataLoader(group_of_one(), counting(1), load_tens, options_of(threads, prefetch));
      });
    };
    CHECK(make(0, 1) == "data loader: threads is 0, must be 1 to 256");
    CHECK(make(257, 1) == "data loader: threads is 257, must be 1 to 256");
    CHECK(make(1, 0) == "data loader: prefetch is 0, must be 1 to 1024");
    CHECK(make(1, 1025) == "data loader: prefetch is 1025, must be 1 to 1024");
    CHECK(what_of([] { DataLoader(group_of_one(), nullptr, load_tens, options_of(1, 1)); }) ==
          "data loader: list is empty; pass a function");
    CHECK(what_of([] { DataLoader(group_of_one(), counting(1), nullptr, options_of(1, 1)); }) ==
          "data loader: load is empty; pass a function");
  }

  TEST_CASE("data loader: discarding prefetched batches of an elastic sampler loses nothing") {
    const ddprun::ElasticSamplerOptions options = {.samples = 100, .global_batch = 6};
    ddprun::ElasticSampler sampler(options, 1, 0);
    Samples used;
    for (int life = 0; !sampler.is_at_end(); ++life) {
      std::int64_t ahead = 0;
      const auto list = [from = sampler, ahead]() mutable -> std::optional<Samples> {
        auto samples = from.samples_ahead(ahead++);
        if (samples.empty()) return std::nullopt;
        return samples;
      };
      DataLoader loader(group_of_one(), list, load_tens, options_of(2, 4));
      for (int step = 0; step <= life % 3; ++step) {
        const auto batch = loader.next();
        if (!batch) break;
        used.insert(used.end(), batch->samples.begin(), batch->samples.end());
        sampler.commit();
      }
    }
    CHECK(used == ddprun::DistributedSampler(100, 1, 0).indices(0));
  }
}

}  // namespace data_loader_test
