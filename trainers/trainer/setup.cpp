#include "trainers/trainer/setup.hpp"

#include "trainers/compute/placement.hpp"
#include "trainers/frame/text.hpp"

#include <nlohmann/json.hpp>

#include <string>

namespace trainer {

TrainAndTest load_data(const Options& options) {
  if (options.dataset == "fashion_mnist") return load_fashion_mnist(options.data_dir);
  const auto seed = static_cast<std::uint64_t>(options.seed);
  // Shapes of PyTorch's tutorials; other models use the shape of Fashion-MNIST.
  RandomDataSpec spec = {.features = 784, .outputs = 10, .labels = true, .seed = seed};
  if (options.model == "linear") {
    spec = {.features = 20, .outputs = 1, .labels = false, .seed = seed};
  } else if (options.model == "toy") {
    spec = {.features = 10, .outputs = 5, .labels = false, .seed = seed};
  }
  return make_random_data(spec);
}

Places Computes::places(const Options& options) const {
  const Place place = {rest.get(), options.type()};
  // Only the CPU can be a separate place, which computes in float32.
  return {place, embedding == nullptr ? place : Place{embedding.get()}};
}

Computes make_computes(const Options& options, const ddprun::WorkerEnv& env) {
  const bool is_apart = options.embedding_device != options.device;
  return {make_compute(options.device, options.threads, env),
          is_apart ? make_compute(options.embedding_device, options.threads, env) : nullptr};
}

Model make_model(const Options& options, const Dataset& train_set, const Places& places) {
  return make_model({.name = options.model,
                     .inputs = train_set.features,
                     .outputs = train_set.outputs,
                     .batch_norm = options.batch_norm,
                     .seed = static_cast<std::uint64_t>(options.seed),
                     .vocabulary = train_set.features * kShades},
                    places);
}

std::unique_ptr<Optimizer> make_optimizer(const Options& options, const Model& model) {
  if (options.optimizer == "adam") return std::make_unique<AdamOptimizer>(model.parameters());
  return std::make_unique<SgdOptimizer>(model.parameters(), static_cast<float>(options.momentum));
}

Settings settings_of(const Options& options, const ddprun::WorkerEnv& env,
                     const Dataset& train_set) {
  Settings settings = {{"samples", train_set.samples},
                       {"model", options.model},
                       {"batch_norm", options.batch_norm},
                       {"loss", options.loss},
                       {"dataset", options.dataset},
                       {"batch_size", options.batch_size},
                       {"gradient_accumulation", options.gradient_accumulation},
                       {"epochs", options.epochs},
                       {"optimizer", options.optimizer},
                       {"lr", options.lr},
                       {"lr_schedule", options.lr_schedule},
                       {"seed", options.seed},
                       {"device", options.device},
                       {"dtype", options.dtype},
                       {"threads", options.threads}};
  if (options.optimizer == "sgd") settings["momentum"] = options.momentum;
  // The number of workers is then not a setting.
  if (options.global_batch_size > 0) {
    settings["global_batch_size"] = options.global_batch_size;
  } else {
    settings["workers"] = env.world_size;
  }
  return settings;
}

std::string resumed_text(const Progress& progress, const Options& options) {
  const auto number = [](std::int64_t value) { return static_cast<long long>(value); };
  const std::string head = format("resumed after step %lld", number(progress.step));
  if (progress.epoch >= options.epochs) {
    return head + format(": nothing is left to do, %lld of %lld epochs are done",
                         number(progress.epoch), number(options.epochs));
  }
  if (options.max_steps > 0 && progress.step >= options.max_steps) {
    return head +
           format(": nothing is left to do up to --max_steps %lld", number(options.max_steps));
  }
  return head + format(", in epoch %lld/%lld", number(progress.epoch) + 1, number(options.epochs));
}

float learning_rate(const Options& options, std::int64_t step, std::int64_t steps_per_epoch) {
  if (options.lr_schedule == "constant") return static_cast<float>(options.lr);
  const auto done = static_cast<double>(step - 1);
  const auto all = static_cast<double>(options.epochs * steps_per_epoch);
  return static_cast<float>(options.lr * (1 - done / all));
}

nlohmann::ordered_json ddp_event(const ModelReducer& reducer) {
  nlohmann::ordered_json event = {{"event", "ddp"}};
  const ddprun::DdpLoggingData data = reducer.logging_data();
  for (const auto& [name, value] : data.ints) event[name] = value;
  for (const auto& [name, value] : data.strings) event[name] = value;
  return event;
}

}  // namespace trainer
