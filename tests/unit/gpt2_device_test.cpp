#include "tests/support/device_ranks.hpp"
#include "tests/support/emulated_device.hpp"
#include "tests/support/gpt2_models.hpp"
#include "tests/support/rank_threads.hpp"
#include "tests/support/temporary_folder.hpp"
#include "trainers/gpt2/training.hpp"

#include <doctest/doctest.h>

#include <fstream>

using namespace trainer;
using namespace trainer::gpt2;
using ddprun::DataType;
using ddprun::ProcessGroup;
using ddprun::test::Doubles;

namespace {

constexpr int kRanks = 2;

/// In the form that scripts/prepare_text writes.
void write_tokens(const std::string& path, std::uint32_t vocabulary) {
  std::mt19937 random(2);
  std::vector<std::uint16_t> tokens(200);
  for (auto& token : tokens) token = static_cast<std::uint16_t>(random() % vocabulary);
  const std::uint32_t numbers[] = {1, vocabulary};
  const std::uint64_t count = tokens.size();
  std::ofstream file(path, std::ios::binary);
  const auto write = [&file](const void* data, std::size_t bytes) {
    file.write(static_cast<const char*>(data), static_cast<std::streamsize>(bytes));
  };
  write("ddpruntk", 8);
  write(numbers, sizeof numbers);
  write(&count, sizeof count);
  write(tokens.data(), tokens.size() * sizeof tokens[0]);
}

/// The losses of some steps of one rank, whose parameters are those of the others in the end.
Doubles train(ProcessGroup group, Compute& compute, const TokenFile& data) {
  constexpr int kSteps = 3;
  ddprun::WorkerEnv env;
  env.rank = group.rank();
  env.world_size = group.size();
  Options options;
  options.shape = ddprun::test::kTinyShape;
  options.shape.layers = 1;
  options.batch_size = 2;
  options.gradient_accumulation = 2;
  options.steps = kSteps;
  options.lr = 0.05;
  options.bucket_cap_mb = 0.001;  // several buckets
  Model model(compute, options.shape, 2, DataType::float32);
  model.initialise(1);
  Optimizer optimizer(compute, model);
  const Array sums = compute.allocate(2, DataType::float64);
  group.set_stream(compute.stream());
  auto reducer = make_reducer(group, model, optimizer, options);
  Training training = {options,
                       env,
                       compute,
                       data,
                       nullptr,
                       model,
                       optimizer,
                       sums,
                       group,
                       std::move(reducer),
                       make_sampler(options, env, data)};
  Doubles losses;
  for (int step = 0; step < kSteps; ++step) losses.push_back(train_step(training, false).loss);
  check_agreement(training);
  return losses;
}

}  // namespace

TEST_SUITE("gpt2 on devices") {
  TEST_CASE("ranks on devices train as ranks on CPUs do, over NCCL as over memory") {
    const ddprun::test::CleanDevices clean;
    const ddprun::test::TemporaryFolder folder;
    write_tokens(folder / "tokens", 11);
    const TokenFile data(folder / "tokens");
    std::vector<Doubles> losses(2 * kRanks);
    ddprun::test::run_ranks(kRanks, [&](ProcessGroup& group) {
      const auto compute = make_cpu_compute(1);
      const auto rank = static_cast<std::size_t>(group.rank());
      losses[rank] = train(std::move(group), *compute, data);
    });
    ddprun::test::run_ranks(ddprun::test::device_ranks(kRanks), [&](ProcessGroup& group) {
      const auto compute = ddprun::test::make_emulated_compute();
      const auto rank = static_cast<std::size_t>(group.rank());
      losses[kRanks + rank] = train(std::move(group), *compute, data);
    });
    CHECK(losses[0] == losses[1]);
    CHECK(losses[2] == losses[3]);
    for (std::size_t step = 0; step < losses[0].size(); ++step)
      CHECK(losses[2][step] == doctest::Approx(losses[0][step]).epsilon(1e-5));
  }
}
