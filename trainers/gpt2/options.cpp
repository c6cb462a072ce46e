#include "trainers/gpt2/options.hpp"

#include "trainers/frame/command_line.hpp"
#include <ddprun/error.hpp>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numbers>
#include <vector>

namespace trainer::gpt2 {

namespace {

using ddprun::Errc;
using ddprun::Error;

constexpr std::int64_t kCountMax = 1'000'000'000;  // large enough for any use, and without overflow
// its product with itself and the number of workers must not overflow
constexpr std::int64_t kBatchMax = 1'000'000;
constexpr std::int64_t kSizeMax = 1 << 24;      // of the model; see check(Shape)
constexpr std::int64_t kSeedMax = 0xffff'ffff;  // fits every random generator

[[noreturn]] void refuse_options(const std::string& what) {
  throw Error(Errc::usage, what);
}

void add_model_options(CLI::App& app, Options& options) {
  std::vector<std::string> names;
  std::string sizes;
  for (const Preset& one : presets()) {
    names.emplace_back(one.name);
    const Shape& shape = one.shape;
    sizes += std::string(sizes.empty() ? "" : ", ") + one.name + " " +
             std::to_string(shape.layers) + "/" + std::to_string(shape.heads) + "/" +
             std::to_string(shape.channels) + "/" + std::to_string(shape.context);
  }
  app.add_option("--model", options.model,
                 "layers, heads, channels and context to begin with (" + sizes +
                     "); those below count instead")
      ->check(CLI::IsMember(names))
      ->capture_default_str();
  const auto size = [&](const char* name, std::size_t& value, const char* help) {
    app.add_option(name, value, help)->check(whole(1, kSizeMax));
  };
  size("--layers", options.shape.layers, "transformer blocks");
  size("--heads", options.shape.heads, "of attention in each layer");
  size("--channels", options.shape.channels, "of each token, a multiple of the heads");
  size("--context", options.shape.context, "tokens of a sequence");
  size("--vocabulary", options.shape.vocabulary, "different tokens (default: those of the data)");
  app.add_option("--device", options.device, "cpu or cuda")
      ->check(CLI::IsMember({"cpu", "cuda"}))
      ->capture_default_str();
  app.add_option("--dtype", options.dtype,
                 "of weights and activations: float32, or bfloat16 with float32 master weights "
                 "(cuda)")
      ->check(CLI::IsMember({"float32", "bfloat16"}))
      ->capture_default_str();
  app.add_flag("--cuda_graph", options.cuda_graph,
               "launch a step as one CUDA graph instead of kernel by kernel; the same results "
               "(cuda)");
  app.add_option("--threads", options.threads, "for the CPU's matrix products, per worker")
      ->check(whole(1, 1024))
      ->capture_default_str();
}

void add_data_options(CLI::App& app, Options& options) {
  app.add_option("--data", options.data, "token file, made by trainers/gpt2/prepare_text")
      ->type_name("FILE")
      ->required();
  app.add_option("--test_data", options.test_data,
                 "token file to test with (default: the data's name with .test, if there is one)")
      ->type_name("FILE");
  app.add_option("--batch_size", options.batch_size, "sequences per worker and backward pass")
      ->check(whole(1, kBatchMax))
      ->capture_default_str();
  app.add_option("--gradient_accumulation", options.gradient_accumulation,
                 "backward passes per step")
      ->check(whole(1, kBatchMax))
      ->capture_default_str();
  app.add_option("--global_batch_size", options.global_batch_size,
                 "sequences of all workers per step, in as many backward passes as they need; the "
                 "number of workers may then change between attempts (0: it must not)")
      ->check(whole(0, kBatchMax))
      ->capture_default_str();
  app.add_option("--test_every", options.test_every, "steps between tests (0: at the end only)")
      ->check(whole(0, kCountMax))
      ->capture_default_str();
  app.add_option("--test_sequences", options.test_sequences, "to test with (0: all)")
      ->check(whole(0, kCountMax))
      ->capture_default_str();
}

void add_training_options(CLI::App& app, Options& options) {
  app.add_option("--steps", options.steps, "optimizer steps in all")
      ->check(whole(1, kCountMax))
      ->capture_default_str();
  app.add_option("--lr", options.lr, "learning rate, at its highest")
      ->check(between(1e-9, 1e3))
      ->capture_default_str();
  app.add_option("--lr_schedule", options.lr_schedule, "cosine or constant")
      ->check(CLI::IsMember({"cosine", "constant"}))
      ->capture_default_str();
  app.add_option("--lr_final", options.lr_final, "where the cosine ends, as a part of --lr")
      ->check(between(0, 1))
      ->capture_default_str();
  app.add_option("--warmup_steps", options.warmup_steps, "in which the rate rises from 0")
      ->check(whole(0, kCountMax))
      ->capture_default_str();
  app.add_option("--beta1", options.beta1, "of AdamW")
      ->check(between(0, 0.9999999))
      ->capture_default_str();
  app.add_option("--beta2", options.beta2, "of AdamW")
      ->check(between(0, 0.9999999))
      ->capture_default_str();
  app.add_option("--weight_decay", options.weight_decay, "of matrices and embeddings")
      ->check(between(0, 100))
      ->capture_default_str();
  app.add_option("--gradient_norm_max", options.gradient_norm_max,
                 "gradients are clipped to this norm (0: never)")
      ->check(between(0, 1e9))
      ->capture_default_str();
  app.add_option("--seed", options.seed, "of the first values and the order of the sequences")
      ->check(whole(0, kSeedMax))
      ->capture_default_str();
}

void add_run_options(CLI::App& app, Options& options) {
  app.add_option("--backend", options.backend, "of the process group: auto, host, gloo, mpi, nccl")
      ->capture_default_str();
  app.add_option("--bucket_cap_mb", options.bucket_cap_mb,
                 "MiB of gradients that are averaged at once")
      ->check(between(0.001, 4096))
      ->capture_default_str();
  app.add_option("--checkpoint_dir", options.checkpoint_dir,
                 "save here and resume from the newest good checkpoint; a restarted worker starts "
                 "over without it")
      ->type_name("DIR");
  app.add_option("--checkpoint_every", options.checkpoint_every, "steps between checkpoints")
      ->check(whole(1, kCountMax))
      ->capture_default_str();
  app.add_option("--print_every", options.print_every, "steps between lines")
      ->check(whole(1, kCountMax))
      ->capture_default_str();
  app.add_option("--metrics", options.metrics, "write JSON lines: start, steps, tests, end")
      ->type_name("FILE");
  app.add_option("--ledger", options.ledger,
                 "write the sequences of every step to FILE.rankN, one JSON line a step")
      ->type_name("FILE");
}

/// Fills in the preset's sizes.
Shape completed(const Options& options) {
  Shape shape = preset(options.model);
  const Shape& given = options.shape;
  if (given.layers > 0) shape.layers = given.layers;
  if (given.heads > 0) shape.heads = given.heads;
  if (given.channels > 0) shape.channels = given.channels;
  if (given.context > 0) shape.context = given.context;
  shape.vocabulary = given.vocabulary;
  return shape;
}

void refuse_contradictions(const CLI::App& app, const Options& options) {
  const auto given = [&](const char* name) { return app.count(name) > 0; };
  if (given("--gradient_accumulation") && options.global_batch_size > 0) {
    refuse_options("--gradient_accumulation follows from --global_batch_size and --batch_size");
  }
  if (given("--checkpoint_every") && options.checkpoint_dir.empty()) {
    refuse_options("--checkpoint_every needs --checkpoint_dir");
  }
  if (given("--lr_final") && options.lr_schedule != "cosine") {
    refuse_options("--lr_final is an option of --lr_schedule cosine");
  }
  if (given("--threads") && options.device != "cpu") {
    refuse_options("--threads is an option of --device cpu");
  }
  if (options.cuda_graph && options.device != "cuda") {
    refuse_options("--cuda_graph is an option of --device cuda");
  }
  if (options.warmup_steps > options.steps) {
    refuse_options("--warmup_steps " + std::to_string(options.warmup_steps) +
                   " is more than --steps " + std::to_string(options.steps));
  }
  if ((given("--test_every") || given("--test_sequences")) && options.test_data.empty()) {
    refuse_options(
        "there is nothing to test with: give --test_data, or prepare the text with "
        "--test_fraction");
  }
}

}  // namespace

ddprun::DataType Options::type() const {
  return dtype == "bfloat16" ? ddprun::DataType::bfloat16 : ddprun::DataType::float32;
}

CommandLine parse_command_line(int argc, const char* const* argv) {
  CommandLine result;
  Options& options = result.options;
  CLI::App app("Trains a language model like GPT-2, alone or as a worker of ddprun.", "gpt2");
  add_model_options(app, options);
  add_data_options(app, options);
  add_training_options(app, options);
  add_run_options(app, options);
  add_tracking_options(app, options.tracking);
  result.help = parse(app, argc, argv);
  if (!result.help.empty()) return result;
  options.shape = completed(options);
  if (options.test_data.empty() && std::filesystem::exists(options.data + ".test")) {
    options.test_data = options.data + ".test";
  }
  refuse_contradictions(app, options);
  complete(options.tracking, app, look_up_variable);
  return result;
}

double learning_rate(const Options& options, std::int64_t step) {
  if (step <= options.warmup_steps) {
    return options.lr * static_cast<double>(step) / static_cast<double>(options.warmup_steps);
  }
  if (options.lr_schedule == "constant") return options.lr;
  const double done =
      static_cast<double>(step - options.warmup_steps) /
      static_cast<double>(std::max<std::int64_t>(options.steps - options.warmup_steps, 1));
  const double height = 0.5 * (1 + std::cos(std::numbers::pi * std::min(done, 1.0)));
  return options.lr * (options.lr_final + (1 - options.lr_final) * height);
}

}  // namespace trainer::gpt2
