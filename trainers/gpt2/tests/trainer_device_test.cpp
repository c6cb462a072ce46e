#include "tests/support/device_arrays.hpp"
#include "tests/support/device_ranks.hpp"
#include "tests/support/rank_threads.hpp"
#include "trainers/gpt2/tests/emulated_device.hpp"
#include "trainers/trainer/training.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace trainer_device_test {

using namespace trainer;
using ddprun::ProcessGroup;
using ddprun::test::Doubles;

namespace {

constexpr int kRanks = 2;

/// Small and fast on an emulated device.
Options small_options(const std::string& model) {
  Options options;
  options.model = model;
  options.dataset = "random";
  options.loss = model == "toy" ? "mse" : "cross_entropy";
  options.batch_norm = model == "mlp" || model == "toy";
  options.batch_size = 6;
  options.gradient_accumulation = 2;
  options.epochs = 2;
  options.lr = 0.05;
  options.bucket_cap_mb = 0.01;  // several buckets
  return options;
}

/// A number of samples with which the last step of an epoch has fewer, and one rank none in its
/// second pass.
TrainAndTest small_data(const Options& options) {
  const bool has_classes = options.loss == "cross_entropy";
  return make_random_data({.train_samples = 37,
                           .test_samples = 9,
                           .features = 10,
                           .outputs = 5,
                           .labels = has_classes});
}

struct Trained {
  Doubles losses;
  double test_loss = 0;
  std::uint64_t hash = 0;
  ddprun::Checkpoint checkpoint;
};

/// Trains one rank from `from`, or from the beginning, to step `to`.
Trained train(ProcessGroup group, Compute& compute, const Options& options, std::int64_t to,
              const std::optional<ddprun::Checkpoint>& from = std::nullopt) {
  const TrainAndTest data = small_data(options);
  ddprun::WorkerEnv env;
  env.rank = group.rank();
  env.world_size = group.size();
  CollectiveTrace trace("", env.rank, env.restart_count);
  const Place place = {&compute, options.type()};
  const auto apart = options.embedding_device == options.device ? nullptr : make_cpu_compute(1);
  const Places places = {place, apart == nullptr ? place : Place{apart.get()}};
  Model model = make_model(options, data.train, places);
  const auto optimizer = make_optimizer(options, model);
  const Array sums = compute.allocate(2, ddprun::DataType::float64);
  const Settings settings = settings_of(options, env, data.train);
  group.set_stream(compute.stream());
  Progress progress;
  if (from) progress = restore(*from, model, *optimizer, settings);
  Training training = {options,
                       env,
                       data,
                       compute,
                       sums,
                       group,
                       model,
                       *optimizer,
                       ModelReducer(group, model, options),
                       progress,
                       trace,
                       Loss(place, options.loss),
                       DeviceBatch(places),
                       {.as_tokens = options.model == "bag"}};
  const EpochBatches batches({.samples = static_cast<std::int64_t>(data.train.samples),
                              .world_size = env.world_size,
                              .rank = env.rank,
                              .batch_size = options.batch_size,
                              .gradient_accumulation = options.gradient_accumulation},
                             0);
  Trained result;
  while (training.progress.step < to) {
    result.losses.push_back(
        train_step(training, batches, training.progress.step % batches.steps(), false).loss);
  }
  result.test_loss = evaluate(training).loss;
  result.hash = check_agreement(training);
  result.checkpoint = to_checkpoint(model, *optimizer, training.progress, settings);
  return result;
}

using Start = std::optional<ddprun::Checkpoint>;

/// Rank 0's training with all ranks on CPUs.
Trained train_on_cpus(Options options, std::int64_t to, const Start& from = {}) {
  options.embedding_device = "cpu";
  std::vector<Trained> trained(kRanks);
  ddprun::test::run_ranks(kRanks, [&](ProcessGroup& group) {
    const auto compute = make_cpu_compute(1);
    const auto rank = static_cast<std::size_t>(group.rank());
    trained[rank] = train(std::move(group), *compute, options, to, from);
  });
  CHECK(trained[0].losses == trained[1].losses);
  return trained[0];
}

/// The same with all ranks on devices, over NCCL.
Trained train_on_devices(Options options, std::int64_t to, const Start& from = {}) {
  options.device = "cuda";
  if (options.embedding_device.empty()) options.embedding_device = "cuda";
  std::vector<Trained> trained(kRanks);
  ddprun::test::run_ranks(ddprun::test::device_ranks(kRanks), [&](ProcessGroup& group) {
    const auto compute = ddprun::test::make_emulated_compute();
    const auto rank = static_cast<std::size_t>(group.rank());
    trained[rank] = train(std::move(group), *compute, options, to, from);
  });
  CHECK(trained[0].losses == trained[1].losses);
  CHECK(trained[0].hash == trained[1].hash);
  return trained[0];
}

void check_close(const Doubles& actual, const Doubles& expected, double tolerance) {
  REQUIRE(actual.size() == expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i) {
    CAPTURE(i);
    CHECK(actual[i] == doctest::Approx(expected[i]).epsilon(tolerance));
  }
}

}  // namespace

TEST_SUITE("trainer on devices") {
  TEST_CASE("trainer on devices: all models train like on CPUs over NCCL and memory") {
    const ddprun::test::CleanDevices clean;
    struct Kind {
      const char* model;
      const char* optimizer;
      double lr;
    };
    for (const Kind& kind : std::vector<Kind>{{"linear", "sgd", 0.05},
                                              {"toy", "adam", 0.001},
                                              {"mlp", "sgd", 0.05},
                                              {"seqnet", "sgd", 0.05},
                                              {"bag", "sgd", 0.05}}) {
      CAPTURE(kind.model);
      Options options = small_options(kind.model);
      options.optimizer = kind.optimizer;
      // Normalisation cancels the bias before it, whose gradient is a rounding error; Adam takes a
      // step for it like for any other.
      if (options.optimizer == "adam") options.batch_norm = false;
      options.lr = kind.lr;
      const Trained cpu = train_on_cpus(options, 2);
      const Trained device = train_on_devices(options, 2);
      check_close(device.losses, cpu.losses, 1e-5);
      CHECK(device.test_loss == doctest::Approx(cpu.test_loss).epsilon(1e-5));
    }
  }

  TEST_CASE("trainer on devices: an embedding can be on the CPU") {
    const ddprun::test::CleanDevices clean;
    Options options = small_options("bag");
    options.batch_size = 2;
    options.gradient_accumulation = 1;
    const Trained cpu = train_on_cpus(options, 3);
    options.embedding_device = "cpu";
    const Trained mixed = train_on_devices(options, 3);
    check_close(mixed.losses, cpu.losses, 1e-5);
    CHECK(mixed.test_loss == doctest::Approx(cpu.test_loss).epsilon(1e-5));
    const Trained begun = train_on_devices(options, 2);
    CHECK(train_on_devices(options, 3, begun.checkpoint).hash == mixed.hash);
    options.dtype = "bfloat16";
    check_close(train_on_devices(options, 1).losses, {cpu.losses[0]}, 0.03);
    options.dtype = "float32";
    options.embedding_device = "cuda";
    check_close(train_on_devices(options, 3, begun.checkpoint).losses, {cpu.losses[2]}, 1e-5);
  }

  TEST_CASE(
      "trainer on devices: bfloat16 training is close to float32 and trains float32 weights") {
    const ddprun::test::CleanDevices clean;
    Options options = small_options("toy");
    const Trained exact = train_on_devices(options, 5);
    options.dtype = "bfloat16";
    const Trained rounded = train_on_devices(options, 5);
    check_close(rounded.losses, exact.losses, 0.03);
    CHECK(rounded.losses != exact.losses);
    CHECK(rounded.checkpoint.sections.at("parameters/layer0.weight").size() == 10 * 10 * 4);
    CHECK(train_on_devices(options, 5).hash == rounded.hash);
  }

  TEST_CASE("trainer on devices: training resumes from a checkpoint bit for bit") {
    const ddprun::test::CleanDevices clean;
    for (const char* dtype : {"float32", "bfloat16"}) {
      CAPTURE(dtype);
      Options options = small_options("toy");
      options.dtype = dtype;
      const Trained whole = train_on_devices(options, 6);
      const Trained begun = train_on_devices(options, 3);
      const Trained gone_on = train_on_devices(options, 6, begun.checkpoint);
      CHECK(gone_on.hash == whole.hash);
      CHECK(gone_on.losses == Doubles(whole.losses.begin() + 3, whole.losses.end()));
    }
  }

  TEST_CASE("trainer on devices: ranks without their peer fail and resume in the next attempt") {
    const ddprun::test::CleanDevices clean;
    Options options = small_options("toy");
    const Trained whole = train_on_devices(options, 6);
    options.device = options.embedding_device = "cuda";
    Start saved;
    ddprun::test::run_ranks(ddprun::test::device_ranks(kRanks), [&](ProcessGroup& group) {
      const auto compute = ddprun::test::make_emulated_compute();
      const Trained begun = train(group, *compute, options, 3);
      if (group.rank() == 1) return group.abort("killed");
      saved = begun.checkpoint;
      CHECK_THROWS_AS(train(group, *compute, options, 6, saved), ddprun::Error);
    });
    CHECK(train_on_devices(options, 6, saved).hash == whole.hash);
  }

  TEST_CASE("trainer on devices: training can resume on another kind of device") {
    const ddprun::test::CleanDevices clean;
    const Options options = small_options("toy");
    const Trained whole = train_on_cpus(options, 6);
    const Doubles rest(whole.losses.begin() + 3, whole.losses.end());
    check_close(train_on_devices(options, 6, train_on_cpus(options, 3).checkpoint).losses, rest,
                1e-5);
    check_close(train_on_cpus(options, 6, train_on_devices(options, 3).checkpoint).losses, rest,
                1e-5);
  }
}

}  // namespace trainer_device_test
