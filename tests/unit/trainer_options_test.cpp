#include "trainers/frame/console.hpp"
#include "trainers/trainer/options.hpp"
#include <ddprun/error.hpp>

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace trainer_options_test {

using trainer::Options;

namespace {

trainer::CommandLine parse(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "trainer");
  return trainer::parse_command_line(static_cast<int>(arguments.size()), arguments.data());
}

std::string refusal(const std::vector<const char*>& arguments) {
  try {
    parse(arguments);
    return "";
  } catch (const ddprun::Error& error) {
    CHECK(error.code() == ddprun::Errc::usage);
    return error.what();
  }
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_SUITE("trainer options") {
  TEST_CASE("trainer options: defaults depend on model and data and optimizer") {
    CHECK(parse({}).options.dataset == "fashion_mnist");
    CHECK(parse({}).options.loss == "cross_entropy");
    CHECK(parse({}).options.lr == 0.05);
    CHECK(parse({"--optimizer", "adam"}).options.lr == 0.001);
    CHECK(parse({"--model", "toy"}).options.dataset == "random");
    CHECK(parse({"--model", "toy"}).options.loss == "mse");
    CHECK(parse({"--model=linear", "--dataset=random"}).options.loss == "mse");
    CHECK(parse({"--model=linear"}).options.loss == "cross_entropy");
  }

  TEST_CASE("trainer options: dashes are accepted in names and kept in values") {
    const Options options =
        parse({"--batch-size=7", "--checkpoint-dir", "my-run", "--data-dir=/a-b"}).options;
    CHECK(options.batch_size == 7);
    CHECK(options.checkpoint_dir == "my-run");
    CHECK(options.data_dir == "/a-b");
  }

  TEST_CASE("trainer options: invalid or contradictory values are rejected by name") {
    struct Refused {
      std::vector<const char*> arguments;
      std::string expected;
    };
    const std::vector<Refused> table = {
        {{"--batch_size", "0"}, "--batch_size"},
        {{"--batch_size", "many"}, "--batch_size"},
        {{"--batch_size", "99999999999999999999"}, "--batch_size"},
        {{"--epochs", "-1"}, "--epochs"},
        {{"--lr", "0"}, "--lr"},
        {{"--lr", "nan"}, "--lr"},
        {{"--momentum", "1"}, "--momentum"},
        {{"--seed", "-1"}, "--seed"},
        {{"--model", "resnet"}, "resnet"},
        {{"--gradient_accumulation", "0"}, "--gradient_accumulation"},
        {{"--threads", "0"}, "--threads"},
        {{"--device", "tpu"}, "--device"},
        {{"--device", "cuda", "--threads", "2"}, "--threads is an option of --device cpu"},
        {{"--dtype", "bfloat16"}, "--dtype bfloat16 needs --device cuda"},
        {{"--dtype", "float16"}, "--dtype"},
        {{"--embedding_device", "cpu"}, "--embedding_device is an option of --model bag"},
        {{"--model", "bag", "--embedding_device", "cuda"}, "needs --device cuda"},
        {{"--bucket_cap_mb", "0"}, "--bucket_cap_mb"},
        {{"--learning_rate", "1"}, "--learning_rate"},
        {{"extra"}, "extra"},
        {{"--batch_size"}, "--batch_size"},
        {{"--model", "toy", "--dataset", "fashion_mnist"}, "--dataset random"},
        {{"--model", "toy", "--loss", "cross_entropy"}, "needs classes"},
        {{"--model", "seqnet", "--batch_norm"}, "--batch_norm"},
        {{"--optimizer", "adam", "--momentum", "0.5"}, "--momentum"},
        {{"--checkpoint_every", "5"}, "--checkpoint_dir"},
        {{"--dataset", "random", "--data_dir", "/x"}, "--data_dir"},
    };
    for (const Refused& refused : table) {
      const std::string message = refusal(refused.arguments);
      CHECK_MESSAGE(contains(message, refused.expected), refused.expected, " in: ", message);
    }
  }

  TEST_CASE("trainer options: --help lists every option") {
    const std::string help = parse({"--help"}).help;
    for (const char* name :
         {"--model", "--dataset", "--data_dir", "--batch_size", "--epochs", "--lr", "--seed",
          "--bucket_cap_mb", "--gradient_accumulation", "--checkpoint_dir", "--checkpoint_every",
          "--device", "--dtype", "--backend", "--trace_collectives", "--metrics", "--ledger",
          "--batch_norm"}) {
      CHECK_MESSAGE(contains(help, name), name);
    }
  }
}

TEST_SUITE("trainer console") {
  TEST_CASE("trainer console: the progress bar fits any terminal") {
    const trainer::BarState state = {
        .epoch = 1, .epochs = 5, .step = 118, .steps = 235, .loss = 0.4321};
    CHECK(trainer::progress_bar(state, 60) ==
          "epoch 2/5 [##############              ] 118/235 loss 0.4321");
    for (std::size_t width = 0; width < 200; ++width) {
      CHECK(trainer::progress_bar(state, width).size() <= width);
    }
    CHECK(trainer::unfinished_epoch(state) == "epoch 2/5: loss 0.4321 after 118 of 235 steps");
    CHECK(trainer::progress_bar(state, 30) == "epoch 2/5 118/235 loss 0.4321");
    CHECK(trainer::progress_bar(state, 20) == "epoch 2/5 118/235");
    CHECK(trainer::progress_bar(state, 7) == "epoch 2");
  }
}

}  // namespace trainer_options_test
