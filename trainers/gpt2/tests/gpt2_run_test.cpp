#include "tests/support/json_lines.hpp"
#include "trainers/gpt2/tests/token_files.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace gpt2_run_test {

using ddprun::test::guessable_tokens;
using ddprun::test::in_bin;
using ddprun::test::Program;
using ddprun::test::read_json_lines;
using ddprun::test::run_program;
using ddprun::test::TemporaryFolder;
using ddprun::test::write_token_file;

namespace {

using Strings = std::vector<std::string>;

constexpr std::size_t kTokens = 4001;
constexpr std::uint32_t kVocabulary = 50;

// Difference of losses by rounding alone: 6e-7 was measured at most, with three kinds of OpenBLAS's
// kernels.
constexpr double kRounding = 1e-4;

/// Folders of a run's text and output.
struct Folder : TemporaryFolder {
  Folder() {
    write_token_file(*this / "text", kVocabulary, guessable_tokens(kTokens, kVocabulary));
    write_token_file(*this / "text.test", kVocabulary, guessable_tokens(400, kVocabulary));
  }
};

/// Command line of a run with this number of workers, of a small model unless the options set
/// another; a single worker needs no launcher.
Strings command(const Folder& folder, int workers, const Strings& options) {
  Strings arguments;
  if (workers > 1) arguments = {in_bin("ddprun"), "--nproc_per_node=" + std::to_string(workers)};
  arguments.insert(arguments.end(), {in_bin("gpt2"), "--data=" + (folder / "text")});
  for (const std::string& name :
       Strings{"--channels=32", "--context=16", "--bucket_cap_mb=0.02", "--lr=3e-3"}) {
    const auto is_same = [&](const std::string& option) {
      return option.starts_with(name.substr(0, name.find('=') + 1));
    };
    if (std::none_of(options.begin(), options.end(), is_same)) arguments.push_back(name);
  }
  arguments.insert(arguments.end(), options.begin(), options.end());
  return arguments;
}

std::string run(const Folder& folder, int workers, const Strings& options) {
  const auto result = run_program(command(folder, workers, options));
  CHECK_MESSAGE(result.exit_code == 0, result.output);
  return result.output;
}

std::vector<double> values_of(const std::string& metrics, const std::string& event,
                              const std::string& name) {
  std::vector<double> values;
  for (const auto& line : read_json_lines(metrics)) {
    if (line.at("event") == event) values.push_back(line.at(name));
  }
  return values;
}

std::string hash_of(const std::string& metrics) {
  const auto lines = read_json_lines(metrics);
  REQUIRE_FALSE(lines.empty());
  REQUIRE(lines.back().at("event") == "end");
  return lines.back().at("parameters_hash");
}

double largest_distance(const std::vector<double>& left, const std::vector<double>& right) {
  REQUIRE(left.size() == right.size());
  double largest = 0;
  for (std::size_t i = 0; i < left.size(); ++i) {
    largest = std::max(largest, std::abs(left[i] - right[i]));
  }
  return largest;
}

}  // namespace

TEST_SUITE("gpt2 runs") {
  TEST_CASE("gpt2: a predictable text is learned and every step is logged") {
    const Folder folder;
    const std::string output =
        run(folder, 2, {"--steps=150", "--test_every=50", "--metrics=" + (folder / "metrics")});
    const auto losses = values_of(folder / "metrics", "step", "loss");
    REQUIRE(losses.size() == 150);
    CHECK(losses.front() == doctest::Approx(std::log(kVocabulary)).epsilon(0.02));
    CHECK(losses.back() < 1.2);  // 0.40 with each of OpenBLAS's kernels
    const auto tests = values_of(folder / "metrics", "test", "loss");
    REQUIRE(tests.size() == 3);
    CHECK(tests.back() < 1.2);  // 0.43
    for (const char* name : {"tokens_per_second", "mfu", "gradient_norm", "lr", "seconds"}) {
      for (const double value : values_of(folder / "metrics", "step", name)) CHECK(value > 0);
    }
    CHECK(output.find("step 7/150: loss ") != std::string::npos);
    CHECK(output.find(" tokens/s, MFU ") != std::string::npos);
    CHECK(output.find("step 150: test loss ") != std::string::npos);
  }

  TEST_CASE("gpt2: equal global batches give equal losses with 1 or 2 or 3 workers") {
    // Only the order of the sums of gradients differs. AdamW's steps are as large for gradients
    // near zero as for others, with any sign: there the runs diverge first, by rounding.
    const Folder folder;
    std::vector<std::vector<double>> losses;
    for (const int workers : {1, 2, 3}) {
      run(folder, workers,
          {"--steps=40", "--batch_size=" + std::to_string(6 / workers),
           "--metrics=" + (folder / "metrics")});
      losses.push_back(values_of(folder / "metrics", "step", "loss"));
    }
    CHECK(largest_distance(losses[0], losses[1]) < kRounding);
    CHECK(largest_distance(losses[0], losses[2]) < kRounding);
  }

  TEST_CASE("gpt2: accumulated gradients equal those of the larger batch") {
    const Folder folder;
    std::vector<std::vector<double>> losses;
    for (const Strings& batch :
         {Strings{"--batch_size=6"}, Strings{"--batch_size=2", "--gradient_accumulation=3"},
          // Passes of 4 and of 2 sequences.
          Strings{"--batch_size=4", "--global_batch_size=12"}}) {
      Strings options = {"--steps=20", "--metrics=" + (folder / "metrics")};
      options.insert(options.end(), batch.begin(), batch.end());
      run(folder, 2, options);
      losses.push_back(values_of(folder / "metrics", "step", "loss"));
    }
    CHECK(largest_distance(losses[0], losses[1]) < kRounding);
    CHECK(largest_distance(losses[0], losses[2]) < kRounding);
  }

  TEST_CASE("gpt2: a run resumed in another epoch has the same result bits") {
    // 250 sequences, 24 a step: ten steps an epoch.
    const Folder folder;
    const auto options = [&](const std::string& name) {
      return Strings{"--lr_schedule=constant", "--batch_size=8", "--metrics=" + (folder / name),
                     "--ledger=" + (folder / name)};
    };
    Strings whole = options("whole");
    whole.push_back("--steps=33");
    run(folder, 3, whole);
    for (const char* limit : {"--steps=4", "--steps=17", "--steps=33"}) {
      Strings part = options("parts");
      part.insert(part.end(),
                  {limit, "--checkpoint_every=3", "--checkpoint_dir=" + (folder / "saved")});
      run(folder, 3, part);
    }
    CHECK(hash_of(folder / "parts") == hash_of(folder / "whole"));
    CHECK(values_of(folder / "parts", "step", "loss") ==
          values_of(folder / "whole", "step", "loss"));
    std::map<int, int> uses;  // in the first epoch
    for (int rank = 0; rank < 3; ++rank) {
      for (const auto& line : read_json_lines(folder / ("parts.rank" + std::to_string(rank)))) {
        if (!line.contains("step") || line.at("epoch") != 1) continue;
        for (const int sequence : line.at("sequences")) ++uses[sequence];
      }
    }
    CHECK(uses.size() == 240);
    CHECK(std::all_of(uses.begin(), uses.end(), [](const auto& use) { return use.second == 1; }));
  }

  TEST_CASE("gpt2: other numbers of workers continue with the same sequences") {
    const Folder folder;
    const auto start = [&](int workers, int steps, const std::string& name) {
      run(folder, workers,
          {"--global_batch_size=7", "--batch_size=3", "--lr_schedule=constant",
           "--steps=" + std::to_string(steps), "--metrics=" + (folder / name),
           "--checkpoint_dir=" + (folder / (name + ".saved"))});
    };
    start(1, 20, "alone");
    start(3, 8, "changing");
    start(2, 20, "changing");
    CHECK(largest_distance(values_of(folder / "alone", "step", "loss"),
                           values_of(folder / "changing", "step", "loss")) < kRounding);
  }

  TEST_CASE("gpt2: a graceful stop loses no step and the same command resumes") {
    const Folder folder;
    const std::string metrics = folder / "metrics";
    // More steps than fit into the test, so that the signal arrives before the end.
    const auto arguments = [&](std::size_t steps) {
      return Strings{"--lr_schedule=constant", "--steps=" + std::to_string(steps),
                     "--metrics=" + metrics};
    };
    Strings saved = arguments(1'000'000'000);
    saved.insert(saved.end(), {"--checkpoint_dir=" + (folder / "saved")});
    {
      Program program(command(folder, 1, saved));
      REQUIRE(program.read_until_contains("step 3/"));
      program.signal(SIGTERM);
      CHECK(program.wait() == 128 + SIGTERM);
      CHECK(program.output().find("stopped by a signal") != std::string::npos);
    }
    const std::size_t steps = values_of(metrics, "step", "loss").size() + 20;
    Strings rest = arguments(steps);
    rest.push_back("--checkpoint_dir=" + (folder / "saved"));
    run(folder, 1, rest);
    const std::string stopped = hash_of(metrics);
    run(folder, 1, arguments(steps));
    CHECK(hash_of(metrics) == stopped);
  }

  TEST_CASE("gpt2: a failed write to standard output fails the run at its end") {
    const Folder folder;
    const std::string run = in_bin("gpt2") + " --context=16 --steps=3 --data=" + (folder / "text") +
                            " --metrics=" + (folder / "metrics") + " >/dev/full";
    const auto result = run_program({"/bin/sh", "-c", run});
    CHECK(result.exit_code == 1);
    CHECK_MESSAGE(result.output.find("writing to standard output: No space left on device") !=
                      std::string::npos,
                  result.output);
    CHECK(values_of(folder / "metrics", "end", "step") == std::vector<double>{3});
    CHECK(run_program({"/bin/sh", "-c", in_bin("gpt2") + " --help >/dev/full"}).exit_code == 1);
  }

  TEST_CASE("gpt2: workers with different settings do not start") {
    const Folder folder;
    write_token_file(folder / "others", kVocabulary, guessable_tokens(kTokens, kVocabulary - 1));
    // Like nodes with different command lines.
    const auto refused = [&](const std::string& first, const std::string& second,
                             const std::string& expected) {
      CAPTURE(second);
      const std::string script = in_bin("gpt2") + " --context=16 $(test $RANK = 0 && echo " +
                                 first + " || echo " + second +
                                 "); code=$?; echo rank $RANK ended with $code; exit $code";
      const auto result =
          run_program({in_bin("ddprun"), "--nproc_per_node=2", "--no_python", "sh", "-c", script});
      CHECK(result.exit_code != 0);
      CHECK_MESSAGE(result.output.find(expected) != std::string::npos, result.output);
      CHECK_MESSAGE(result.output.find("step 1/") == std::string::npos, result.output);
      CHECK_MESSAGE(result.output.find(" ended with 2") != std::string::npos, result.output);
    };
    const std::string data = "--data=" + (folder / "text");
    refused(data, data + " --batch_size=2", "--batch_size is 4 on rank 0 and 2 on rank 1");
    refused(data, data + " --steps=4", "--steps is 200 on rank 0 and 4 on rank 1");
    refused(data, "--data=" + (folder / "others"), "the checksum of --data is ");
    refused(data, data + " --test_data=" + (folder / "others"), "the checksum of --test_data is ");
  }

  TEST_CASE("gpt2: a run that cannot begin or resume reports the reason") {
    const Folder folder;
    const std::string saved = "--checkpoint_dir=" + (folder / "saved");
    run(folder, 1, {"--steps=3", saved});
    const auto refused = [&](const Strings& options, const std::string& expected) {
      const auto result = run_program(command(folder, 1, options));
      CHECK(result.exit_code == 2);
      CHECK_MESSAGE(result.output.find(expected) != std::string::npos, result.output);
    };
    refused({"--batch_size=2", "--steps=3", saved}, "--batch_size was 4 and is 2");
    refused({"--steps=5", saved}, "--steps was 3 and is 5");
    refused({"--heads=5"}, "--heads 5 does not divide --channels 32");
    refused({"--vocabulary=49"}, "text has a vocabulary of 50, the model one of 49");
    refused({"--batch_size=300"}, "text has 250 sequences of 16 tokens, but a step takes 300");
    refused({"--context=4001"}, "text has 0 sequences of 4001 tokens");
    refused({"--dtype=bfloat16"}, "CPU, 1 thread does not compute in bfloat16");
    refused({"--lr=1000", "--gradient_norm_max=0", "--steps=50"}, "use a smaller --lr than 1000\n");
    refused({"--lr=1000", "--gradient_norm_max=0", "--steps=50",
             "--checkpoint_dir=" + (folder / "diverged")},
            "use a smaller --lr than 1000 and a new --checkpoint_dir\n");
    refused({"--metrics=/nowhere/x"}, "/nowhere/x cannot be written");
    refused({"--test_data=" + (folder / "nothing")}, "nothing cannot be read");
    write_token_file(folder / "short", kVocabulary, guessable_tokens(16, kVocabulary));
    refused({"--test_data=" + (folder / "short")},
            "short has 16 tokens, fewer than a sequence of 16 and the next one");
    if (!std::filesystem::exists("/dev/nvidiactl")) {
      const auto result = run_program(command(folder, 1, {"--device=cuda"}));
      CHECK(result.exit_code == 2);
      const bool says_why =
          result.output.find("there is no NVIDIA GPU here") != std::string::npos ||
          result.output.find("was built without CUDA") != std::string::npos;
      CHECK_MESSAGE(says_why, result.output);
    }
    auto others = guessable_tokens(kTokens, kVocabulary);
    others.back() ^= 1;
    write_token_file(folder / "text", kVocabulary, others);
    refused({"--steps=3", saved}, "other settings: the checksum of --data was ");
    write_token_file(folder / "text", 30, guessable_tokens(kTokens, kVocabulary));
    refused({"--test_data=" + (folder / "text")}, "beyond the vocabulary of 30");
  }
}

}  // namespace gpt2_run_test
