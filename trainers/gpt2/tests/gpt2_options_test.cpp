#include "tests/support/temporary_folder.hpp"
#include "trainers/gpt2/options.hpp"
#include <ddprun/error.hpp>

#include <doctest/doctest.h>

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace gpt2_options_test {

using trainer::gpt2::learning_rate;
using trainer::gpt2::Options;
using trainer::gpt2::parse_command_line;

namespace {

Options parse(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), {"gpt2", "--data=text"});
  return trainer::gpt2::parse_command_line(static_cast<int>(arguments.size()), arguments.data())
      .options;
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

}  // namespace

TEST_SUITE("gpt2 options") {
  TEST_CASE("gpt2 options: explicit sizes override those of the model name") {
    const auto large = parse({"--model=gpt2-774m"}).shape;
    CHECK(large.layers == 36);
    CHECK(large.heads == 20);
    CHECK(large.channels == 1280);
    CHECK(large.context == 1024);
    CHECK(large.vocabulary == 0);
    const auto other = parse({"--context=256", "--model=gpt2-124m", "--vocabulary=300"}).shape;
    CHECK(other.layers == 12);
    CHECK(other.context == 256);
    CHECK(other.vocabulary == 300);
  }

  TEST_CASE("gpt2 options: names can have dashes") {
    CHECK(parse({"--batch-size=7", "--gradient-norm-max=0"}).batch_size == 7);
  }

  TEST_CASE("gpt2 options: help fits 80 columns and lists model sizes") {
    const std::vector<const char*> arguments = {"gpt2", "--help"};
    const std::string help = parse_command_line(2, arguments.data()).help;
    std::istringstream lines(help);
    for (std::string line; std::getline(lines, line);) CHECK_MESSAGE(line.size() <= 80, line);
    const auto contains = [&](const std::string& text) {
      return help.find(text) != std::string::npos;
    };
    CHECK(contains("\n  --layers UINT               transformer blocks\n"));
    CHECK(contains("prepare_text\n                              (required)\n"));
    CHECK(contains("\n  --device {cpu,cuda}         cpu or cuda (default: cpu)\n"));
    CHECK(contains("gpt2-124m\n                              12/12/768/1024, "));
  }

  TEST_CASE("gpt2 options: an error in an options file names the file") {
    const ddprun::test::TemporaryFolder folder;
    const std::string path = folder / "options.toml";
    const auto message_for = [&](const std::string& content) {
      std::ofstream(path) << content;
      return refusal({"--config", path.c_str()});
    };
    CHECK(message_for("steps = 2\n").empty());
    CHECK(message_for("stepz = 2\n") == path + ": there is no option stepz");
  }

  TEST_CASE("gpt2 options: invalid or contradictory values are rejected by name") {
    struct Refused {
      std::vector<const char*> arguments;
      std::string expected;
    };
    const std::vector<Refused> table = {
        {{"--model=gpt3"}, "--model"},
        {{"--layers=0"}, "--layers"},
        {{"--heads=-1"}, "--heads"},
        {{"--channels=x"}, "--channels"},
        {{"--lr=0"}, "--lr"},
        {{"--lr=nan"}, "--lr"},
        {{"--beta2=1"}, "--beta2"},
        {{"--dtype=float16"}, "--dtype"},
        {{"--device=tpu"}, "--device"},
        {{"--nope"}, "gpt2 --help lists the options"},
        {{"--gradient_accumulation=2", "--global_batch_size=8"},
         "--gradient_accumulation follows from"},
        {{"--checkpoint_every=5"}, "--checkpoint_every needs --checkpoint_dir"},
        {{"--lr_schedule=constant", "--lr_final=0.5"}, "--lr_final is an option of"},
        {{"--device=cuda", "--threads=2"}, "--threads is an option of --device cpu"},
        {{"--cuda_graph"}, "--cuda_graph is an option of --device cuda"},
        {{"--warmup_steps=30", "--steps=20"}, "--warmup_steps 30 is more than --steps 20"},
        {{"--test_every=5"}, "there is nothing to test with"},
    };
    for (const Refused& refused : table) {
      const std::string message = refusal(refused.arguments);
      CHECK_MESSAGE(message.find(refused.expected) != std::string::npos, message);
    }
    CHECK(refusal({}).empty());
    CHECK(refusal({"--cuda_graph", "--device=cuda"}).empty());
  }

  TEST_CASE("gpt2 options: the rate rises linearly and decays as a cosine") {
    Options options;
    options.lr = 1;
    options.steps = 110;
    options.warmup_steps = 10;
    options.lr_final = 0.2;
    CHECK(learning_rate(options, 1) == doctest::Approx(0.1));
    CHECK(learning_rate(options, 10) == 1);
    CHECK(learning_rate(options, 60) == doctest::Approx(0.6));
    CHECK(learning_rate(options, 110) == doctest::Approx(0.2));
    options.lr_schedule = "constant";
    CHECK(learning_rate(options, 5) == doctest::Approx(0.5));
    CHECK(learning_rate(options, 110) == 1);
    options.warmup_steps = 110;
    options.lr_schedule = "cosine";
    CHECK(learning_rate(options, 110) == 1);
  }
}

}  // namespace gpt2_options_test
