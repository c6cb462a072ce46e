#include "trainers/trainer/options.hpp"

#include "trainers/frame/command_line.hpp"
#include "trainers/trainer/model.hpp"
#include <ddprun/error.hpp>

#include <CLI/CLI.hpp>

#include <iterator>
#include <vector>

namespace trainer {

namespace {

using ddprun::Errc;
using ddprun::Error;

constexpr std::int64_t kCountMax = 1'000'000'000;  // large enough for any use, and without overflow
// its product with itself and the number of workers must not overflow
constexpr std::int64_t kBatchMax = 1'000'000;
constexpr std::int64_t kSeedMax = 0xffff'ffff;  // range of std::mt19937's seed

void add_model_options(CLI::App& app, Options& options) {
  app.add_option("--model", options.model,
                 "linear, toy (10-10-5), mlp (784-256-128-10), seqnet, bag (of embeddings)")
      ->check(
          CLI::IsMember(std::vector<std::string>(std::begin(kModelNames), std::end(kModelNames))))
      ->capture_default_str();
  app.add_flag("--batch_norm", options.batch_norm, "mlp: batch normalisation before each ReLU");
  app.add_option("--loss", options.loss,
                 "cross_entropy or mse (default: cross_entropy where there are classes)")
      ->check(CLI::IsMember({"cross_entropy", "mse"}));
  app.add_option("--device", options.device, "cpu or cuda")
      ->check(CLI::IsMember({"cpu", "cuda"}))
      ->capture_default_str();
  app.add_option("--dtype", options.dtype,
                 "of weights and activations: float32, or bfloat16 with float32 master weights "
                 "(cuda)")
      ->check(CLI::IsMember({"float32", "bfloat16"}))
      ->capture_default_str();
  app.add_option("--embedding_device", options.embedding_device,
                 "bag: cpu or cuda, where the embedding is (default: as --device)")
      ->check(CLI::IsMember({"cpu", "cuda"}));
  app.add_option("--threads", options.threads, "for the CPU's matrix products, per worker")
      ->check(whole(1, 1024))
      ->capture_default_str();
}

void add_data_options(CLI::App& app, Options& options) {
  app.add_option("--dataset", options.dataset,
                 "fashion_mnist or random (default: fashion_mnist; toy: random)")
      ->check(CLI::IsMember({"fashion_mnist", "random"}));
  app.add_option("--data_dir", options.data_dir, "folder of the four idx .gz files")
      ->type_name("DIR")
      ->capture_default_str();
  app.add_option("--batch_size", options.batch_size, "samples per worker and backward pass")
      ->check(whole(1, kBatchMax))
      ->capture_default_str();
  app.add_option("--gradient_accumulation", options.gradient_accumulation,
                 "backward passes per step")
      ->check(whole(1, kBatchMax))
      ->capture_default_str();
  app.add_option("--global_batch_size", options.global_batch_size,
                 "samples of all workers per step, in as many backward passes as they need; their "
                 "number may then change between attempts (0: it must not)")
      ->check(whole(0, kBatchMax))
      ->capture_default_str();
}

void add_training_options(CLI::App& app, Options& options) {
  app.add_option("--epochs", options.epochs, "times that every sample is used")
      ->check(whole(1, kCountMax))
      ->capture_default_str();
  app.add_option("--max_steps", options.max_steps, "stop after so many steps in all (0: no limit)")
      ->check(whole(0, kCountMax))
      ->capture_default_str();
  app.add_option("--optimizer", options.optimizer, "sgd or adam")
      ->check(CLI::IsMember({"sgd", "adam"}))
      ->capture_default_str();
  app.add_option("--lr", options.lr, "learning rate (default: sgd 0.05, adam 0.001)")
      ->check(between(1e-9, 1e6));
  app.add_option("--lr_schedule", options.lr_schedule,
                 "linear (falls to 0 over the epochs) or constant")
      ->check(CLI::IsMember({"linear", "constant"}))
      ->capture_default_str();
  app.add_option("--momentum", options.momentum, "of sgd")
      ->check(between(0, 0.9999))
      ->capture_default_str();
  app.add_option("--seed", options.seed, "of the parameters' first values and the samples' order")
      ->check(whole(0, kSeedMax))
      ->capture_default_str();
}

void add_distributed_options(CLI::App& app, Options& options) {
  app.add_option("--backend", options.backend,
                 "of the process group: auto, host, gloo, nccl, mpi, mpich, openmpi")
      ->capture_default_str();
  app.add_option("--bucket_cap_mb", options.bucket_cap_mb,
                 "MiB of gradients that are averaged at once")
      ->check(between(0.001, 4096))
      ->capture_default_str();
  app.add_option("--collectives", options.collectives,
                 "own or pytorch: those that DDP would call, for comparing traces")
      ->check(CLI::IsMember({"own", "pytorch"}))
      ->capture_default_str();
  app.add_option("--checkpoint_dir", options.checkpoint_dir,
                 "save here and resume from the newest good checkpoint; a restarted worker starts "
                 "over without it")
      ->type_name("DIR");
  app.add_option("--checkpoint_every", options.checkpoint_every, "steps between checkpoints")
      ->check(whole(1, kCountMax))
      ->capture_default_str();
  app.add_option("--metrics", options.metrics, "write JSON lines: start, steps, epochs, end")
      ->type_name("FILE");
  app.add_option("--ledger", options.ledger,
                 "write the samples of every step to FILE.rankN, one JSON line a step")
      ->type_name("FILE");
  app.add_option("--trace_collectives", options.trace_collectives,
                 "write each collective to a Chrome trace; FILE's name gets .rankN for rank N > 0 "
                 "and .attemptN after restart N")
      ->type_name("FILE");
}

[[noreturn]] void refuse(const std::string& what) {
  throw Error(Errc::usage, what);
}

bool given(const CLI::App& app, const std::string& name) {
  return app.count(name) > 0;
}

void refuse_contradictions(const CLI::App& app, const Options& options) {
  if (options.batch_norm && options.model != "mlp") {
    refuse("--batch_norm is an option of --model mlp, not of " + options.model);
  }
  if (options.model == "toy" && options.dataset == "fashion_mnist") {
    refuse("--model toy takes 10 inputs and has 5 outputs: use it with --dataset random");
  }
  if (given(app, "--momentum") && options.optimizer != "sgd") {
    refuse("--momentum is an option of --optimizer sgd, not of " + options.optimizer);
  }
  if (given(app, "--threads") && options.device != "cpu") {
    refuse("--threads is an option of --device cpu");
  }
  if (options.dtype == "bfloat16" && options.device == "cpu") {
    refuse("--dtype bfloat16 needs --device cuda: the CPU computes in float32");
  }
  if (given(app, "--embedding_device") && options.model != "bag") {
    refuse("--embedding_device is an option of --model bag, not of " + options.model);
  }
  if (options.embedding_device == "cuda" && options.device == "cpu") {
    refuse("--embedding_device cuda needs --device cuda");
  }
  if (given(app, "--checkpoint_every") && options.checkpoint_dir.empty()) {
    refuse("--checkpoint_every needs --checkpoint_dir");
  }
  if (given(app, "--gradient_accumulation") && options.global_batch_size > 0) {
    refuse("--gradient_accumulation follows from --global_batch_size and --batch_size");
  }
  if (given(app, "--data_dir") && options.dataset != "fashion_mnist") {
    refuse("--data_dir is for --dataset fashion_mnist, not for " + options.dataset);
  }
}

/// Sets defaults that depend on other options.
void complete(Options& options) {
  if (options.dataset.empty()) {
    options.dataset = options.model == "toy" ? "random" : "fashion_mnist";
  }
  const bool regression =
      options.dataset == "random" && (options.model == "toy" || options.model == "linear");
  if (options.loss.empty()) options.loss = regression ? "mse" : "cross_entropy";
  if (regression && options.loss == "cross_entropy") {
    refuse(
        "--loss cross_entropy needs classes, which --dataset random has for mlp, seqnet and bag "
        "only");
  }
  if (options.embedding_device.empty()) options.embedding_device = options.device;
  if (options.lr == 0) options.lr = options.optimizer == "sgd" ? 0.05 : 0.001;
}

}  // namespace

ddprun::DataType Options::type() const {
  return dtype == "bfloat16" ? ddprun::DataType::bfloat16 : ddprun::DataType::float32;
}

CommandLine parse_command_line(int argc, const char* const* argv) {
  CommandLine result;
  CLI::App app("Trains a small network on Fashion-MNIST, alone or as a worker of ddprun.",
               "trainer");
  add_model_options(app, result.options);
  add_data_options(app, result.options);
  add_training_options(app, result.options);
  add_distributed_options(app, result.options);
  add_tracking_options(app, result.options.tracking);
  result.help = parse(app, argc, argv);
  if (!result.help.empty()) return result;
  complete(result.options);
  refuse_contradictions(app, result.options);
  complete(result.options.tracking, app, look_up_variable);
  return result;
}

}  // namespace trainer
