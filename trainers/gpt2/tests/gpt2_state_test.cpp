#include "tests/support/rank_threads.hpp"
#include "trainers/gpt2/tests/gpt2_models.hpp"
#include "trainers/gpt2/training_state.hpp"
#include <ddprun/error.hpp>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <memory>
#include <optional>
#include <string>

namespace gpt2_state_test {

using namespace trainer;
using namespace trainer::gpt2;
using ddprun::Checkpoint;
using ddprun::DataType;
using ddprun::ProcessGroup;
using ddprun::test::kTinyShape;

namespace {

const Settings kSettings = {
    {"lr", 0.5}, {"workers", 2}, {"tokens", 1000}, {"steps", 20}, {"lr_schedule", "cosine"}};

/// A model with its optimizer after a step with random gradients.
struct State {
  std::unique_ptr<Compute> compute = make_cpu_compute(1);
  Model model{*compute, kTinyShape, 1, DataType::float32};
  std::vector<Array> gradients;
  std::optional<Optimizer> optimizer;

  explicit State(unsigned seed) {
    std::mt19937 random(seed);
    gradients = ddprun::test::fill_randomly(*compute, model, random);
    optimizer.emplace(*compute, model);
    const auto tokens = ddprun::test::random_tokens(5, kTinyShape.vocabulary, random);
    ddprun::test::loss_of(*compute, model, tokens, tokens, 0.2);
    model.backward([](std::size_t) {});
    optimizer->set_step({}, 1);
    optimizer->update({});
  }

  Checkpoint checkpoint(const Settings& settings = kSettings) {
    return to_checkpoint(*compute, model, *optimizer, {1, "sampler's text"}, settings);
  }

  std::optional<Progress> restore(ProcessGroup& group, const std::optional<Checkpoint>& own,
                                  const Settings& settings = kSettings) {
    return gpt2::restore(*compute, group, model, *optimizer, own, settings);
  }
};

std::string refusal(const Checkpoint& checkpoint, const Settings& settings = kSettings) {
  State state(2);
  ProcessGroup group = ProcessGroup::create_in_process(1)[0];
  try {
    state.restore(group, checkpoint, settings);
    return "";
  } catch (const ddprun::Error& error) {
    CHECK(error.code() == ddprun::Errc::usage);
    return error.what();
  }
}

}  // namespace

TEST_SUITE("gpt2 state") {
  TEST_CASE("gpt2 state: all ranks load rank 0's checkpoint completely") {
    State saved(1);
    const Checkpoint checkpoint = saved.checkpoint();
    ddprun::test::run_ranks(3, [&](ProcessGroup& group) {
      State state(10 + static_cast<unsigned>(group.rank()));
      CHECK(hash_of(*state.compute, state.model) != hash_of(*saved.compute, saved.model));
      std::optional<Checkpoint> own;
      if (group.rank() == 0) own = checkpoint;
      const auto progress = state.restore(group, own);
      REQUIRE(progress.has_value());
      CHECK(progress->step == 1);
      CHECK(progress->sampler == "sampler's text");
      CHECK(state.checkpoint() == checkpoint);
    });
  }

  TEST_CASE("gpt2 state: without a checkpoint all ranks have rank 0's values") {
    State first(10);
    ddprun::test::run_ranks(2, [&](ProcessGroup& group) {
      State state(10 + static_cast<unsigned>(group.rank()));
      CHECK_FALSE(state.restore(group, std::nullopt).has_value());
      CHECK(hash_of(*state.compute, state.model) == hash_of(*first.compute, first.model));
    });
  }

  TEST_CASE("gpt2 state: different settings are rejected by name on all ranks") {
    State saved(1);
    const Checkpoint checkpoint = saved.checkpoint();
    Settings settings = kSettings;
    settings["lr"] = 0.25;
    settings["workers"] = 3;
    settings["seed"] = 4;
    const std::string expected =
        "the checkpoint of step 1 was made with other settings: --lr was 0.5 and is 0.25, --seed "
        "was not there and is 4, the number of workers was 2 and is 3 (use the old "
        "settings or another --checkpoint_dir)";
    ddprun::test::run_ranks(2, [&](ProcessGroup& group) {
      State state(2);
      std::optional<Checkpoint> own;
      if (group.rank() == 0) own = checkpoint;
      CHECK_THROWS_WITH_AS(state.restore(group, own, settings), expected.c_str(), ddprun::Error);
    });
  }

  TEST_CASE("gpt2 state: a checkpoint can be used on another device with other threads") {
    const auto settings = [](const char* device, int threads) {
      Settings all = kSettings;
      all["device"] = device;
      all["threads"] = threads;
      return all;
    };
    State saved(1);
    const Checkpoint checkpoint = saved.checkpoint(settings("cpu", 2));
    CHECK(refusal(checkpoint, settings("cuda", 1)).empty());
    CHECK(refusal(checkpoint, settings("cpu", 1)).find("--threads was 2 and is 1") !=
          std::string::npos);
  }

  TEST_CASE("gpt2 state: more steps are accepted if the rate does not depend on their number") {
    State saved(1);
    Settings settings = kSettings;
    settings["steps"] = 30;
    CHECK(refusal(saved.checkpoint(), settings).find("--steps was 20 and is 30") !=
          std::string::npos);
    settings["lr_schedule"] = "constant";
    Settings constant = kSettings;
    constant["lr_schedule"] = "constant";
    CHECK(refusal(saved.checkpoint(constant), settings).empty());
  }

  TEST_CASE("gpt2 state: a foreign or incomplete checkpoint is rejected") {
    State saved(1);
    Checkpoint checkpoint = saved.checkpoint();
    checkpoint.sections.erase("optimizer/mean/transformer.wpe.weight");
    CHECK(refusal(checkpoint).find("optimizer/mean/transformer.wpe.weight") != std::string::npos);
    checkpoint = saved.checkpoint();
    checkpoint.sections["progress"].resize(3);
    CHECK(refusal(checkpoint) == "the checkpoint's progress is not readable");
    checkpoint.sections.erase("progress");
    CHECK(refusal(checkpoint) ==
          "the checkpoint of step 1 has no section 'progress': it was not written by gpt2");
  }
}

}  // namespace gpt2_state_test
