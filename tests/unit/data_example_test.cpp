// The examples of docs/data.md, compiled and run; also checks that the document shows them.
#include "tests/support/document.hpp"
#include "tests/support/rank_errors.hpp"
#include <ddprun/data_loader.hpp>
#include <ddprun/elastic_sampler.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <vector>

namespace data_example_test {

using ddprun::as_buffer;
using ddprun::DataLoader;
using ddprun::ElasticSampler;
using ddprun::LoadedBatch;
using ddprun::ProcessGroup;

namespace {

using Samples = std::vector<std::int64_t>;

void train(ElasticSampler& sampler, std::int64_t epochs,
           const std::function<void(const Samples& share, std::int64_t window)>& take_step,
           const std::function<void(const std::string& state)>& save) {
  while (sampler.epoch() < epochs) {
    // Gradients are summed over share and workers, and divided by the window's size.
    take_step(sampler.samples(), sampler.window_size());
    sampler.commit();  // the parameters now include the step
    if (sampler.is_at_end()) sampler.next_epoch();
    save(sampler.state().to_text());  // together with the parameters
  }
}

/// Shares of the rest of the epoch, from a copy that runs ahead of the training.
DataLoader::List rest_of_epoch(ElasticSampler ahead) {
  return [ahead]() mutable -> std::optional<Samples> {
    if (ahead.is_at_end()) return std::nullopt;
    Samples share = ahead.samples();  // may be empty: such a step counts, too
    ahead.commit();
    return share;
  };
}

void train_epoch(const ProcessGroup& group, ElasticSampler& sampler, const DataLoader::Load& load,
                 std::size_t batch_bytes_max,
                 const std::function<void(const LoadedBatch& batch)>& take_step) {
  DataLoader loader(group, rest_of_epoch(sampler), load, {.batch_bytes_max = batch_bytes_max});
  while (const auto batch = loader.next()) {
    take_step(*batch);
    sampler.commit();
  }
  sampler.next_epoch();
}

}  // namespace

TEST_SUITE("data example") {
  TEST_CASE("data example: the sampler example uses each sample once and resumes") {
    const ddprun::ElasticSamplerOptions options{.samples = 7, .global_batch = 3};
    std::vector<int> uses(7);
    std::vector<std::string> states;
    const auto count = [&](const Samples& share, std::int64_t window) {
      CHECK(static_cast<std::int64_t>(share.size()) == window);
      for (const auto sample : share) ++uses[static_cast<std::size_t>(sample)];
    };
    const auto keep = [&](const std::string& state) { states.push_back(state); };
    ElasticSampler sampler(options, 1, 0);
    train(sampler, 2, count, keep);
    CHECK(uses == std::vector<int>(7, 2));
    REQUIRE(states.size() == 6);
    // A previous attempt ended after the fourth step.
    auto second = ElasticSampler::resumed(ElasticSampler::State::from_text(states[3]), 1, 0);
    train(second, 2, count, [](const std::string&) {});
    CHECK(uses == [&] {
      std::vector<int> expected(7, 2);
      ElasticSampler again =
          ElasticSampler::resumed(ElasticSampler::State::from_text(states[3]), 1, 0);
      for (; !again.is_at_end(); again.commit()) {
        for (const auto sample : again.samples()) ++expected[static_cast<std::size_t>(sample)];
      }
      return expected;
    }());
  }

  TEST_CASE("data example: a rank without samples still takes every step of the loader") {
    const auto errors = ddprun::test::errors_of_ranks(2, [](ProcessGroup& group) {
      ElasticSampler sampler({.samples = 5, .global_batch = 4}, group.size(), group.rank());
      const auto load = [](std::span<const std::int64_t> samples, std::span<std::byte> memory) {
        std::ranges::copy(std::as_bytes(samples), memory.begin());
        return samples.size_bytes();
      };
      std::int64_t total = 0;
      int steps = 0;
      bool has_seen_empty = false;
      train_epoch(group, sampler, load, 64, [&](const LoadedBatch& batch) {
        std::int64_t sum = 0;
        for (const auto sample : batch.samples) sum += sample;
        has_seen_empty |= batch.samples.empty();
        group.all_reduce(as_buffer(&sum, 1)).wait();
        total += sum;
        ++steps;
      });
      if (total != 10 || steps != 2) throw std::runtime_error("samples or steps are missing");
      if (has_seen_empty != (group.rank() == 1)) throw std::runtime_error("shares");
      if (sampler.epoch() != 1) throw std::runtime_error("epoch");
    });
    CHECK(errors == std::vector<std::string>(2));
  }

  TEST_CASE("data example: docs/data.md shows the compiled code") {
    const auto here = ddprun::test::code_compiled_in("tests/unit/data_example_test.cpp");
    CHECK_FALSE(here.empty());
    CHECK(here == ddprun::test::code_shown_in("docs/data.md"));
  }
}

}  // namespace data_example_test
