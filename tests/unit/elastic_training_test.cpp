// Random schedules of kills and changes of the number of workers, with the real sampler, reducer
// and checkpoints: no sample may be lost or used twice, and all ranks must end with the same bits.
#include "tests/support/rank_errors.hpp"
#include <ddprun/checkpoint.hpp>
#include <ddprun/elastic_sampler.hpp>
#include <ddprun/gradient_reducer.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <numeric>
#include <optional>
#include <random>

namespace elastic_training_test {

using ddprun::as_buffer;
using ddprun::Checkpoint;
using ddprun::ElasticSampler;
using ddprun::ElasticSamplerOptions;
using ddprun::GradientReducer;
using ddprun::ProcessGroup;

namespace {

constexpr int kSchedules = 200;
constexpr std::int64_t kEpochs = 2;
constexpr std::size_t kWeights = 7;

/// Position in a step at which a worker dies.
enum class Moment { before, in_backward, before_commit, before_save };

struct Kill {
  int rank = 0;
  std::int64_t step = 0;
  Moment moment = Moment::before;
};

/// Samples of a worker in a step that may or may not count.
struct Use {
  std::size_t life = 0;
  std::int64_t step = 0;
  std::int64_t epoch = 0;
  std::vector<std::int64_t> samples;
};

/// State that outlives the workers.
struct Run {
  ElasticSamplerOptions options;
  std::int64_t save_every = 1;
  std::mutex mutex;
  std::optional<Checkpoint> saved;
  std::vector<Use> ledger;
  std::vector<std::int64_t> resumed_after;                   ///< by attempt, the step
  std::map<std::int64_t, std::vector<float>> weights_after;  ///< of the current attempt, by step
  bool ranks_differ = false;

  bool is_done() const { return saved && state().epoch == kEpochs; }

  ElasticSampler::State state() const {
    const auto& bytes = saved->sections.at("sampler");
    return ElasticSampler::State::from_text(
        {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  }
};

/// Integers as floats: every order of addition gives the same bits.
float gradient_of(std::int64_t sample, std::size_t weight) {
  return static_cast<float>((sample * 31 + static_cast<std::int64_t>(weight) * 17) % 101);
}

/// A worker from its start to the end of the training or its death.
class Worker {
 public:
  Worker(Run& run, ProcessGroup& group, std::size_t life, const std::optional<Kill>& kill)
      : run_(run),
        group_(group),
        life_(life),
        kill_(kill),
        sampler_(run.options, group.size(), group.rank()),
        weights_(kWeights) {
    if (!run.saved) return;
    step_ = run.saved->step;
    ddprun::get_section(*run.saved, "weights", weights_);
    sampler_.load(run.state());
  }

  void train() {
    GradientReducer reducer(
        group_,
        {{"first", as_buffer(weights_.data(), 4)}, {"second", as_buffer(weights_.data() + 4, 3)}},
        {}, {.first_bucket_bytes = 4, .op = ddprun::ReduceOp::sum});
    while (sampler_.epoch() < kEpochs) {
      die_at(Moment::before);
      step(reducer);
      die_at(Moment::before_commit);
      sampler_.commit();
      ++step_;
      if (sampler_.is_at_end()) sampler_.next_epoch();
      compare();
      if (kill_ && kill_->moment == Moment::before_save && is_killed(step_ - 1)) die();
      const bool is_last = sampler_.epoch() == kEpochs;
      if (group_.rank() == 0 && (is_last || step_ % run_.save_every == 0)) save();
    }
  }

 private:
  void step(GradientReducer& reducer) {
    const auto samples = sampler_.samples();
    {
      const std::lock_guard lock(run_.mutex);
      run_.ledger.push_back({life_, step_, sampler_.epoch(), samples});
    }
    reducer.zero_gradients();
    reducer.begin();
    for (const std::size_t parameter : {1u, 0u}) {
      auto* values = static_cast<float*>(reducer.gradient(parameter).data);
      const std::size_t first = parameter == 0 ? 0 : 4;
      for (std::size_t i = 0; i < reducer.gradient(parameter).elements; ++i) {
        for (const auto sample : samples) values[i] += gradient_of(sample, first + i);
      }
      reducer.ready(parameter);
      die_at(Moment::in_backward);
    }
    reducer.finish();
    for (std::size_t i = 0; i < kWeights; ++i) {
      const auto gradient = reducer.gradient(i < 4 ? 0 : 1);
      weights_[i] += static_cast<const float*>(gradient.data)[i < 4 ? i : i - 4];
    }
  }

  void compare() {
    const std::lock_guard lock(run_.mutex);
    const auto [known, is_first] = run_.weights_after.emplace(step_, weights_);
    if (!is_first && known->second != weights_) run_.ranks_differ = true;
  }

  void save() {
    Checkpoint checkpoint = {.step = step_, .sections = {}};
    ddprun::put_section(checkpoint, "weights", weights_);
    ddprun::put_section(checkpoint, "sampler", sampler_.state().to_text());
    const std::lock_guard lock(run_.mutex);
    run_.saved = std::move(checkpoint);
  }

  bool is_killed(std::int64_t step) const {
    return kill_->rank == group_.rank() && kill_->step == step;
  }
  void die_at(Moment moment) {
    if (kill_ && kill_->moment == moment && is_killed(step_)) die();
  }
  [[noreturn]] static void die() { throw std::runtime_error("killed"); }

  Run& run_;
  ProcessGroup& group_;
  std::size_t life_;
  std::optional<Kill> kill_;
  ElasticSampler sampler_;
  std::int64_t step_ = 0;
  std::vector<float> weights_;
};

/// Repeats attempts until the training is complete.
void play(Run& run, std::mt19937& random) {
  const auto draw = [&](int least, int most) {
    return least + static_cast<int>(random() % static_cast<unsigned>(most - least + 1));
  };
  for (std::size_t life = 0; !run.is_done(); ++life) {
    const int workers = draw(1, 4);
    const std::int64_t resumed_after = run.saved ? run.saved->step : 0;
    run.resumed_after.push_back(resumed_after);
    run.weights_after.clear();
    std::optional<Kill> kill;
    // After this number of attempts kills end: kills before the first save prevent progress.
    if (life < 4) {
      kill = {draw(0, workers - 1), resumed_after + draw(0, 4), static_cast<Moment>(draw(0, 3))};
    }
    ddprun::test::errors_of_ranks(
        workers, [&](ProcessGroup& group) { Worker(run, group, life, kill).train(); });
  }
}

/// Samples of each epoch, from the steps that later attempts resumed from.
std::vector<std::vector<std::int64_t>> committed(const Run& run) {
  std::vector<std::vector<std::int64_t>> epochs(kEpochs);
  for (const auto& use : run.ledger) {
    const bool is_last_life = use.life + 1 == run.resumed_after.size();
    if (!is_last_life && use.step >= run.resumed_after[use.life + 1]) continue;
    auto& samples = epochs[static_cast<std::size_t>(use.epoch)];
    samples.insert(samples.end(), use.samples.begin(), use.samples.end());
  }
  return epochs;
}

}  // namespace

TEST_SUITE("elastic training") {
  TEST_CASE("elastic training: each sample is used exactly once despite kills and resizes") {
    std::size_t lives = 0;
    std::size_t replayed = 0;
    for (unsigned schedule = 0; schedule < kSchedules; ++schedule) {
      CAPTURE(schedule);
      std::mt19937 random(schedule);
      Run run;
      const auto samples = static_cast<std::int64_t>(20 + random() % 60);
      run.options = {.samples = samples,
                     .global_batch = static_cast<std::int64_t>(3 + random() % 10),
                     .seed = schedule,
                     .order = static_cast<ddprun::SampleOrder>(random() % 2)};
      run.save_every = 1 + static_cast<std::int64_t>(random() % 4);
      play(run, random);
      CHECK_FALSE(run.ranks_differ);

      std::vector<std::int64_t> all(static_cast<std::size_t>(samples));
      std::iota(all.begin(), all.end(), std::int64_t{0});
      std::size_t used = 0;
      for (auto& epoch : committed(run)) {
        std::sort(epoch.begin(), epoch.end());
        REQUIRE(epoch == all);
        used += epoch.size();
      }
      std::vector<float> expected(kWeights);
      for (std::size_t i = 0; i < kWeights; ++i) {
        for (const auto sample : all) {
          expected[i] += static_cast<float>(kEpochs) * gradient_of(sample, i);
        }
      }
      std::vector<float> weights(kWeights);
      ddprun::get_section(*run.saved, "weights", weights);
      CHECK(weights == expected);

      lives += run.resumed_after.size();
      for (const auto& use : run.ledger) replayed += use.samples.size();
      replayed -= used;
    }
    // The schedules cover the intended cases.
    CHECK(lives > 3 * kSchedules);
    CHECK(replayed > kSchedules);
  }
}

}  // namespace elastic_training_test
