#include "tests/support/device_arrays.hpp"
#include "trainers/trainer/setup.hpp"
#include "trainers/trainer/training_state.hpp"
#include <ddprun/error.hpp>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <string>
#include <vector>

namespace trainer_state_test {

using ddprun::Checkpoint;
using trainer::Model;
using trainer::Progress;
using trainer::Settings;

namespace {

const Settings kSettings = {
    {"lr", 0.05}, {"batch_size", 64}, {"epochs", 8}, {"lr_schedule", "linear"}};

void put(const trainer::StateBuffer& state, std::size_t index, float value) {
  state.compute->copy_in(std::as_bytes(std::span(&value, 1)), state.values.buffer.slice(index, 1));
}

/// A model and an optimizer in which every number depends on the seed.
struct State {
  std::unique_ptr<trainer::Compute> compute = trainer::make_cpu_compute(1);
  Model model;
  trainer::AdamOptimizer optimizer;

  explicit State(std::uint64_t seed)
      : model(trainer::make_model(
            {.name = "mlp", .inputs = 4, .outputs = 3, .batch_norm = true, .seed = seed},
            trainer::Place{compute.get()})),
        optimizer(model.parameters()) {
    const auto value = static_cast<float>(seed);
    for (const trainer::StateBuffer* state : optimizer.state()) put(*state, 0, value);
    for (const trainer::StateBuffer* state : model.buffers())
      put(*state, state->values.buffer.elements - 1, value);
  }

  Checkpoint checkpoint() { return to_checkpoint(model, optimizer, {}, kSettings); }
};

std::string refusal(const Checkpoint& checkpoint, const Settings& settings = kSettings) {
  State state(2);
  try {
    restore(checkpoint, state.model, state.optimizer, settings);
    return "";
  } catch (const ddprun::Error& error) {
    return error.what();
  }
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_SUITE("trainer state") {
  TEST_CASE("trainer state: a checkpoint restores every number") {
    State then(1);
    State now(2);
    CHECK(hash_of(then.model) != hash_of(now.model));
    const Progress progress = {.step = 7, .epoch = 2, .samples_used = 640, .epoch_loss = 0.1 + 0.2};
    const Checkpoint checkpoint = to_checkpoint(then.model, then.optimizer, progress, kSettings);
    CHECK(checkpoint.step == 7);
    CHECK(restore(checkpoint, now.model, now.optimizer, kSettings) == progress);
    CHECK(hash_of(now.model) == hash_of(then.model));
    CHECK(to_checkpoint(now.model, now.optimizer, progress, kSettings) == checkpoint);
  }

  TEST_CASE("trainer state: a checkpoint with other settings is rejected and all are named") {
    Settings others = kSettings;
    others["lr"] = 1e-4;
    others["model"] = "x";
    others["workers"] = 4;
    const std::string message = refusal(State(1).checkpoint(), others);
    CHECK(contains(message, "--lr was 0.05 and is now 0.0001"));
    CHECK(contains(message, "--model was not known and is now x"));
    CHECK(contains(message, "the number of workers was not known and is now 4"));
    CHECK_FALSE(contains(message, "--batch_size"));
    CHECK_FALSE(contains(message, "--lr_schedule"));
  }

  TEST_CASE("trainer state: a checkpoint of a CPU can be resumed on a GPU") {
    const auto settings = [](const char* device, int threads, const char* dtype) {
      Settings all = kSettings;
      all["device"] = device;
      all["threads"] = threads;
      all["dtype"] = dtype;
      return all;
    };
    State state(1);
    const auto checkpoint =
        to_checkpoint(state.model, state.optimizer, {}, settings("cpu", 2, "float32"));
    CHECK(refusal(checkpoint, settings("cuda", 1, "float32")).empty());
    CHECK(contains(refusal(checkpoint, settings("cpu", 1, "float32")),
                   "--threads was 2 and is now 1"));
    CHECK(contains(refusal(checkpoint, settings("cuda", 1, "bfloat16")),
                   "--dtype was float32 and is now bfloat16"));
  }

  TEST_CASE("trainer state: the number of epochs can change only with a constant learning rate") {
    const auto refusal_of = [](const std::string& schedule) {
      State state(1);
      Settings settings = kSettings;
      settings["lr_schedule"] = schedule;
      const auto checkpoint = to_checkpoint(state.model, state.optimizer, {}, settings);
      settings["epochs"] = 10;
      return refusal(checkpoint, settings);
    };
    CHECK(refusal_of("constant").empty());
    CHECK(contains(refusal_of("linear"), "--epochs was 8 and is now 10"));
    CHECK(contains(refusal_of("linear"), "training with --lr_schedule constant can change it"));
  }

  TEST_CASE("trainer state: the epoch of the last step counts from 1") {
    CHECK(trainer::epoch_of_last_step({}) == 0);
    CHECK(trainer::epoch_of_last_step({.step = 1, .epoch = 0, .samples_used = 64}) == 1);
    CHECK(trainer::epoch_of_last_step({.step = 9, .epoch = 1, .samples_used = 0}) == 1);
  }

  TEST_CASE("trainer state: a resumed run reports its position or that nothing remains") {
    trainer::Options options;
    const Progress progress = {.step = 300, .epoch = 1, .samples_used = 64};
    CHECK(resumed_text(progress, options) == "resumed after step 300, in epoch 2/8");
    options.max_steps = 100;
    CHECK(resumed_text(progress, options) ==
          "resumed after step 300: nothing is left to do up to --max_steps 100");
    options.epochs = 1;
    CHECK(resumed_text(progress, options) ==
          "resumed after step 300: nothing is left to do, 1 of 1 epochs are done");
  }

  TEST_CASE("trainer state: a checkpoint with missing or unsuitable sections is rejected") {
    const Checkpoint good = State(1).checkpoint();
    CHECK(refusal(good).empty());
    for (const auto& section : good.sections) {
      const std::string& name = section.first;
      Checkpoint lacking = good;
      lacking.sections.erase(name);
      CHECK_MESSAGE(contains(refusal(lacking), name), name);
      Checkpoint cut = good;
      cut.sections[name].pop_back();
      CHECK_MESSAGE(contains(refusal(cut), name), name);
    }
  }

  TEST_CASE("trainer state: one changed bit changes the hash of a model") {
    State state(1);
    const std::uint64_t before = hash_of(state.model);
    const trainer::Buffer& values = state.model.parameters().back()->master.buffer;
    const trainer::Buffer last = values.slice(values.elements - 1, 1);
    const auto value = -static_cast<float>(ddprun::test::from_device(*state.compute, last)[0]);
    state.compute->copy_in(std::as_bytes(std::span(&value, 1)), last);
    CHECK(hash_of(state.model) != before);
  }
}

}  // namespace trainer_state_test
