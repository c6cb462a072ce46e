#include <ddprun/elastic_sampler.hpp>
#include <ddprun/error.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <random>
#include <set>

namespace elastic_sampler_test {

using ddprun::DistributedSampler;
using ddprun::ElasticSampler;
using ddprun::ElasticSamplerOptions;
using ddprun::permuted;
using ddprun::SampleOrder;
using ddprun::TailPolicy;

namespace {

using Samples = std::vector<std::int64_t>;

/// Samples of all workers in the step at the cursor of `state`, in the order of the window.
Samples window_of(const ElasticSampler::State& state, int world_size) {
  std::vector<Samples> own;
  std::size_t size = 0;
  for (int rank = 0; rank < world_size; ++rank) {
    ElasticSampler sampler(state.options, world_size, rank);
    sampler.load(state);
    own.push_back(sampler.samples());
    size += own.back().size();
  }
  Samples window;
  for (std::size_t i = 0; i < size; ++i) {
    const auto worker = static_cast<std::size_t>(world_size);
    window.push_back(own[i % worker][i / worker]);
  }
  return window;
}

/// Samples of a whole epoch, with a different number of workers in every step.
Samples elastic_epoch(const ElasticSamplerOptions& options, std::int64_t epoch) {
  std::mt19937 random(7);
  ElasticSampler sampler(options, 1, 0);
  sampler.load({.epoch = epoch, .options = options});
  Samples all;
  while (!sampler.is_at_end()) {
    const auto window = window_of(sampler.state(), 1 + static_cast<int>(random() % 6));
    all.insert(all.end(), window.begin(), window.end());
    sampler.commit();
  }
  return all;
}

std::string what_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const ddprun::Error& error) {
    return error.code() == ddprun::Errc::usage ? error.what() : "not a usage error";
  }
  return {};
}

}  // namespace

TEST_SUITE("elastic sampler") {
  TEST_CASE("elastic sampler: an epoch has the same order for any sequence of worker counts") {
    for (const std::int64_t samples : {0, 1, 7, 64, 100}) {
      for (const std::int64_t batch : {1, 3, 10, 64, 1000}) {
        CAPTURE(samples);
        CAPTURE(batch);
        const ElasticSamplerOptions options = {
            .samples = samples, .global_batch = batch, .seed = 3};
        const Samples order =
            DistributedSampler(samples, 1, 0, {.shuffle = true, .seed = 3}).indices(2);
        CHECK(elastic_epoch(options, 2) == order);
        auto dropping = options;
        dropping.tail = TailPolicy::drop;
        CHECK(elastic_epoch(dropping, 2) ==
              Samples(order.begin(), order.begin() + samples / batch * batch));
        auto padding = options;
        padding.tail = TailPolicy::pad;
        const Samples padded = elastic_epoch(padding, 2);
        CHECK(padded.size() == static_cast<std::size_t>((samples + batch - 1) / batch * batch));
        for (std::size_t i = 0; i < padded.size(); ++i) {
          CHECK(padded[i] == order[i % static_cast<std::size_t>(samples)]);
        }
      }
    }
  }

  TEST_CASE("elastic sampler: indices of constant workers equal PyTorch's DistributedSampler") {
    constexpr int kWorkers = 4;
    for (int rank = 0; rank < kWorkers; ++rank) {
      ElasticSampler sampler({.samples = 96, .global_batch = 8, .seed = 5}, kWorkers, rank);
      Samples all;
      for (; !sampler.is_at_end(); sampler.commit()) {
        const auto own = sampler.samples();
        all.insert(all.end(), own.begin(), own.end());
      }
      CHECK(all == DistributedSampler(96, kWorkers, rank, {.seed = 5}).indices(0));
    }
  }

  TEST_CASE("elastic sampler: the tail policy determines the last step's size and new samples") {
    struct Case {
      TailPolicy tail;
      std::int64_t steps;
      std::int64_t last_window;
      std::int64_t last_new;
    };
    for (const auto& c : {Case{TailPolicy::smaller, 3, 2, 2}, Case{TailPolicy::drop, 2, 4, 4},
                          Case{TailPolicy::pad, 3, 4, 2}}) {
      ElasticSampler sampler({.samples = 10, .global_batch = 4, .tail = c.tail}, 2, 1);
      CHECK(sampler.steps() == c.steps);
      for (std::int64_t step = 1; step < c.steps; ++step) sampler.commit();
      CHECK(sampler.window_size() == c.last_window);
      CHECK(sampler.new_samples() == c.last_new);
      const auto own = sampler.samples();
      CHECK(own.size() == static_cast<std::size_t>(c.last_window / 2));
      for (std::size_t i = 0; i < own.size(); ++i) {
        // Items 1 and 3 of the window; the data set ends after two of the last one.
        CHECK(sampler.is_repeated(i) == (c.tail == TailPolicy::pad && i == 1));
      }
      CHECK_FALSE(sampler.is_at_end());
      sampler.commit();
      CHECK(sampler.is_at_end());
      CHECK(sampler.samples().empty());
      sampler.next_epoch();
      CHECK(sampler.epoch() == 1);
      CHECK(sampler.cursor() == 0);
    }
  }

  TEST_CASE("elastic sampler: samples_ahead() returns later steps without advancing") {
    ElasticSampler sampler({.samples = 50, .global_batch = 8}, 3, 2);
    std::vector<Samples> ahead;
    for (std::int64_t step = 0; step < 9; ++step) ahead.push_back(sampler.samples_ahead(step));
    CHECK(sampler.cursor() == 0);
    for (std::size_t step = 0; !sampler.is_at_end(); ++step) {
      CHECK(sampler.samples() == ahead[step]);
      sampler.commit();
    }
    CHECK(ahead[7].empty());
    CHECK(ahead[8].empty());
    CHECK(sampler.samples_ahead(std::int64_t{1} << 60).empty());
  }

  TEST_CASE("elastic sampler: the computed order is a permutation per seed and epoch") {
    for (const std::int64_t n : {1, 2, 3, 4, 5, 16, 17, 100, 1000, 4097}) {
      std::vector<std::int64_t> order(static_cast<std::size_t>(n));
      for (std::int64_t i = 0; i < n; ++i) order[static_cast<std::size_t>(i)] = permuted(i, n, 9);
      std::sort(order.begin(), order.end());
      for (std::int64_t i = 0; i < n; ++i) CHECK(order[static_cast<std::size_t>(i)] == i);
    }
    std::set<Samples> orders;
    for (const std::uint64_t seed : {0, 1, 5}) {
      for (const std::int64_t epoch : {0, 1, 5}) {
        orders.insert(elastic_epoch(
            {.samples = 100, .global_batch = 7, .seed = seed, .order = SampleOrder::computed},
            epoch));
      }
    }
    CHECK(orders.size() == 9);
  }

  TEST_CASE("elastic sampler: the computed order looks shuffled") {
    // Each pair of neighbours is in order with probability 1/2, each position keeps its sample with
    // 1/n: bounds are six deviations.
    constexpr std::int64_t kCount = 10000;
    int rising = 0;
    int fixed = 0;
    for (std::int64_t i = 0; i + 1 < kCount; ++i) {
      rising += permuted(i, kCount, 4) < permuted(i + 1, kCount, 4) ? 1 : 0;
      fixed += permuted(i, kCount, 4) == i ? 1 : 0;
    }
    CHECK(rising > 5000 - 6 * 29);
    CHECK(rising < 5000 + 6 * 29);
    CHECK(fixed < 8);
  }

  TEST_CASE("elastic sampler: the computed order allocates no memory for the data set") {
    const std::int64_t huge = std::int64_t{1} << 50;
    ElasticSampler sampler({.samples = huge, .global_batch = 4, .order = SampleOrder::computed}, 2,
                           0);
    for (const auto sample : sampler.samples()) {
      CHECK(sample >= 0);
      CHECK(sample < huge);
    }
    ElasticSampler plain({.samples = huge, .global_batch = 4, .order = SampleOrder::sequential}, 2,
                         1);
    plain.commit();
    CHECK(plain.samples() == Samples{5, 7});
  }

  TEST_CASE("elastic sampler: a state is one line and is restored completely") {
    ElasticSampler sampler({.samples = 1000,
                            .global_batch = 32,
                            .seed = 0xffff'ffff'ffff'ffff,
                            .order = SampleOrder::computed,
                            .tail = TailPolicy::pad},
                           3, 1);
    sampler.load({.epoch = 1, .options = sampler.state().options});
    sampler.commit();
    const auto text = sampler.state().to_text();
    CHECK(text ==
          "ddprun-sampler 1 epoch=1 cursor=32 samples=1000 global_batch=32 "
          "seed=18446744073709551615 order=1 tail=2");
    ElasticSampler other(sampler.state().options, 5, 4);
    other.load(ElasticSampler::State::from_text(text));
    CHECK(other.epoch() == 1);
    CHECK(other.cursor() == 32);
    CHECK(other.state().to_text() == text);
  }

  TEST_CASE("elastic sampler: an unreadable state is rejected with the reason") {
    const auto why = [](const std::string& text) {
      return what_of([&] { (void)ElasticSampler::State::from_text(text); });
    };
    const std::string good = ElasticSampler({.samples = 5}, 1, 0).state().to_text();
    CHECK(why(good) == "");
    CHECK(why("") == "elastic sampler: the saved state does not begin with \"ddprun-sampler 1\"");
    CHECK(why("ddprun-sampler 1 epoch=1") == "elastic sampler: the saved state has no cursor");
    CHECK(why("ddprun-sampler 1 epoch=x") ==
          "elastic sampler: the saved state has no number as epoch");
    CHECK(why(good + " more") == "elastic sampler: the saved state has unexpected text \" more\"");
    CHECK(why(good + "9") == "elastic sampler: the saved state has no known tail");
    // Every prefix of a valid state is invalid.
    for (std::size_t length = 0; length < good.size(); ++length) {
      CHECK(why(good.substr(0, length)) != "");
    }
  }

  TEST_CASE("elastic sampler: a state of other options is rejected unless forced") {
    const ElasticSamplerOptions options = {.samples = 100, .global_batch = 10, .seed = 1};
    ElasticSampler saved(options, 2, 0);
    saved.commit();
    auto other = options;
    other.seed = 2;
    other.global_batch = 5;
    ElasticSampler sampler(other, 2, 0);
    CHECK(what_of([&] { sampler.load(saved.state()); }) ==
          "elastic sampler: the saved state is of another training: global_batch was 10 and is 5, "
          "seed was 1 and is 2 (samples would be lost or used twice)");
    CHECK(sampler.cursor() == 0);
    sampler.load(saved.state(), true);
    CHECK(sampler.cursor() == 10);
    auto state = saved.state();
    state.cursor = 101;
    CHECK(what_of([&] { saved.load(state); }) ==
          "elastic sampler: saved cursor is 101, must be 0 to 100");
    CHECK(saved.cursor() == 10);
  }

  TEST_CASE("elastic sampler: numbers out of range are rejected") {
    const auto why = [](ElasticSamplerOptions options, int world_size, int rank) {
      return what_of([&] { (void)ElasticSampler(options, world_size, rank); });
    };
    CHECK(why({.samples = -1}, 1, 0).find("samples is -1") != std::string::npos);
    CHECK(why({.samples = ddprun::kPermutationMax}, 1, 0).find("samples is") != std::string::npos);
    CHECK(why({.samples = 1, .global_batch = 0}, 1, 0) ==
          "elastic sampler: global_batch is 0, must be 1 to 1152921504606846976");
    CHECK(why({}, 0, 0).find("world_size is 0") != std::string::npos);
    CHECK(why({}, 2, 2) == "elastic sampler: rank is 2, must be 0 to 1");
  }

  TEST_CASE("elastic sampler: calls that the epoch or the share does not allow are rejected") {
    const ElasticSamplerOptions options{.samples = 9, .global_batch = 8, .tail = TailPolicy::pad};
    ElasticSampler sampler(options, 3, 0);
    const ElasticSampler without_samples({.samples = 9, .global_batch = 2}, 3, 2);
    for (const auto& [call, message] : std::vector<std::pair<std::function<void()>, std::string>>{
             {[&] { (void)sampler.samples_ahead(-1); },
              "elastic sampler: samples_ahead(-1): the number of steps is negative"},
             {[&] { (void)sampler.is_repeated(3); },
              "elastic sampler: is_repeated(3): the worker has 3 samples in this step"},
             {[&] { (void)sampler.is_repeated(SIZE_MAX); },
              "elastic sampler: is_repeated(18446744073709551615): the worker has 3 samples in "
              "this step"},
             {[&] { (void)without_samples.is_repeated(0); },
              "elastic sampler: is_repeated(0): the worker has 0 samples in this step"},
             {[&] { sampler.next_epoch(); },
              "elastic sampler: next_epoch() after 0 of 9 samples of epoch 0: commit all steps "
              "first"},
             {[] { (void)permuted(10, 5, 1); }, "permutation: index 10 is not within 0..4"},
             {[] { (void)permuted(-1, 5, 1); }, "permutation: index -1 is not within 0..4"},
             {[] { (void)permuted(1, 1, 1); }, "permutation: index 1 is not within 0..0"},
             {[] { (void)permuted(0, 0, 1); }, "permutation: 0 elements: must be at least 1"},
         }) {
      CHECK(what_of(call) == message);
    }
    CHECK_FALSE(sampler.is_repeated(2));
    CHECK(sampler.epoch() == 0);
  }
}

}  // namespace elastic_sampler_test
