// Complete trainings of a small language model, by ranks that are threads of this process.
#pragma once

#include "tests/support/device_ranks.hpp"
#include "tests/support/rank_threads.hpp"
#include "tests/support/temporary_folder.hpp"
#include "trainers/gpt2/tests/emulated_device.hpp"
#include "trainers/gpt2/tests/gpt2_models.hpp"
#include "trainers/gpt2/training.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <cstdint>
#include <fstream>
#include <functional>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace ddprun::test {

/// Random tokens in a file like that of trainers/gpt2/prepare_text.
class SmallText {
 public:
  SmallText() : data_(written(folder_ / "tokens")) {}

  const trainer::gpt2::TokenFile& data() const { return data_; }

 private:
  static std::string written(const std::string& path) {
    std::mt19937 random(2);
    std::vector<std::uint16_t> tokens(200);
    for (auto& token : tokens) token = static_cast<std::uint16_t>(random() % kTinyShape.vocabulary);
    const std::uint32_t numbers[] = {1, kTinyShape.vocabulary};
    const std::uint64_t count = tokens.size();
    std::ofstream file(path, std::ios::binary);
    const auto write = [&file](const void* data, std::size_t bytes) {
      file.write(static_cast<const char*>(data), static_cast<std::streamsize>(bytes));
    };
    write("ddpruntk", 8);
    write(numbers, sizeof numbers);
    write(&count, sizeof count);
    write(tokens.data(), tokens.size() * sizeof tokens[0]);
    return path;
  }

  const TemporaryFolder folder_;
  const trainer::gpt2::TokenFile data_;
};

inline trainer::gpt2::Options small_training() {
  trainer::gpt2::Options options;
  options.shape = kTinyShape;
  options.shape.layers = 1;
  options.batch_size = 2;
  options.gradient_accumulation = 2;
  options.steps = 3;
  options.lr = 0.05;
  options.bucket_cap_mb = 0.001;  // several buckets
  options.test_every = 3;
  options.test_sequences = 3;
  return options;
}

/// Results of a rank, and the final parameters, which all ranks have.
struct RankResults {
  Doubles losses;
  Doubles norms;
  Doubles test_losses;              ///< on the same text
  std::vector<std::int64_t> stops;  ///< steps in which a rank requested a stop
  std::uint64_t hash = 0;

  bool operator==(const RankResults&) const = default;
};

/// First and last step of a training; counters are those of rank 0.
struct TrainingEnds {
  std::optional<Checkpoint> checkpoint = {};
  std::int64_t last_step = 0;
  std::int64_t stop_wanted_in = 0;  ///< step in which this rank requests a stop; 0: none
};

using AfterStep = std::function<void(trainer::gpt2::Training&)>;

/// Resumes from the checkpoint of `ends`, if any, and saves a checkpoint there.
inline RankResults train_rank(
    ProcessGroup group, trainer::Compute& compute, const SmallText& text,
    const trainer::gpt2::Options& options, TrainingEnds& ends,
    const AfterStep& after_step = [](trainer::gpt2::Training&) {}) {
  using namespace trainer::gpt2;
  WorkerEnv env;
  env.rank = group.rank();
  env.world_size = group.size();
  trainer::gpt2::Model model(compute, options.shape, static_cast<std::size_t>(options.batch_size),
                             options.type());
  model.initialise(1);
  Optimizer optimizer(compute, model);
  const trainer::Array sums = compute.allocate(2, DataType::float64);
  group.set_stream(compute.stream());
  const Settings settings = Settings::object();
  const auto progress = restore(compute, group, model, optimizer, ends.checkpoint, settings);
  ElasticSampler sampler = make_sampler(options, env, text.data());
  if (progress) sampler.load(ElasticSampler::State::from_text(progress->sampler));
  Training training = {options,      env,
                       compute,      text.data(),
                       &text.data(), model,
                       optimizer,    sums,
                       group,        make_reducer(group, model, optimizer, options),
                       sampler,      progress ? progress->step : 0};
  RankResults results;
  while (training.step < (ends.last_step == 0 ? options.steps : ends.last_step)) {
    const StepResult result = train_step(training, training.step + 1 == ends.stop_wanted_in);
    if (result.stop_wanted) results.stops.push_back(training.step);
    results.losses.push_back(result.loss);
    results.norms.push_back(result.gradient_norm);
    if (training.step % options.test_every == 0) results.test_losses.push_back(test_loss(training));
    after_step(training);
  }
  ends.checkpoint = to_checkpoint(compute, model, optimizer,
                                  {training.step, training.sampler.state().to_text()}, settings);
  results.hash = check_agreement(training);
  return results;
}

/// Returns the results of this number of ranks on devices.
inline RankResults train_on_devices(int ranks, const SmallText& text,
                                    const trainer::gpt2::Options& options, TrainingEnds& ends) {
  std::vector<RankResults> all(static_cast<std::size_t>(ranks));
  std::vector<TrainingEnds> own(all.size(), ends);
  run_ranks(device_ranks(ranks), [&](ProcessGroup& group) {
    const auto compute = make_emulated_compute();
    const auto rank = static_cast<std::size_t>(group.rank());
    all[rank] = train_rank(std::move(group), *compute, text, options, own[rank]);
  });
  for (const RankResults& one : all) CHECK(one == all[0]);
  ends = own[0];
  return all[0];
}

inline RankResults train_on_devices(int ranks, const SmallText& text,
                                    const trainer::gpt2::Options& options) {
  TrainingEnds ends;
  return train_on_devices(ranks, text, options, ends);
}

}  // namespace ddprun::test
