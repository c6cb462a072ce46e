#include "trainers/libtorch_spirals/options.hpp"

#include "trainers/frame/command_line.hpp"

#include <CLI/CLI.hpp>

namespace trainer::spirals {

namespace {

constexpr std::int64_t kCountMax = 100'000'000;
constexpr std::int64_t kSeedMax = 0xffff'ffff;

}  // namespace

CommandLine parse_command_line(int argc, const char* const* argv) {
  CommandLine result;
  Options& options = result.options;
  CLI::App app("Learns with LibTorch to which of three spirals a point belongs.",
               "libtorch_spirals");
  const auto count = whole(1, kCountMax);
  app.add_option("--epochs", options.epochs, "passes through all samples")
      ->check(count)
      ->capture_default_str();
  app.add_option("--samples", options.samples, "points to learn from")
      ->check(count)
      ->capture_default_str();
  app.add_option("--global_batch_size", options.global_batch_size,
                 "samples of a step, of all workers")
      ->check(count)
      ->capture_default_str();
  app.add_option("--lr", options.lr, "learning rate of Adam")
      ->check(between(0, 1e3))
      ->capture_default_str();
  app.add_option("--seed", options.seed, "of first values, points and their order")
      ->check(whole(0, kSeedMax))
      ->capture_default_str();
  app.add_option("--checkpoint_dir", options.checkpoint_dir,
                 "write checkpoints there, and resume from the newest one")
      ->type_name("DIR");
  app.add_option("--checkpoint_every", options.checkpoint_every, "steps between two checkpoints")
      ->check(count)
      ->capture_default_str();
  app.add_option("--metrics", options.metrics, "write JSON lines: start, step, end")
      ->type_name("FILE");
  result.help = parse(app, argc, argv);
  return result;
}

}  // namespace trainer::spirals
