#include "trainers/resnet50_pipeline/options.hpp"

#include "trainers/frame/command_line.hpp"
#include <ddprun/error.hpp>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <string>

namespace trainer::resnet50 {

namespace {

constexpr std::int64_t kCountMax = 1'000'000;
constexpr std::int64_t kImageSizeMax = 4096;
constexpr std::int64_t kSeedMax = 0xffff'ffff;
// Ratio of an image's side to that of layer4's output.
constexpr std::int64_t kReduction = 32;

/// Batch norm needs at least two values per channel to compute a variance.
void refuse_single_values(const Options& options) {
  const std::int64_t size = options.split_size == 0 ? options.batch_size : options.split_size;
  const std::int64_t rest = options.batch_size % size;
  const std::int64_t fewest = rest == 0 ? std::min(size, options.batch_size) : rest;
  if (fewest > 1 || options.image_size > kReduction) return;
  throw ddprun::Error(ddprun::Errc::usage,
                      "--image_size " + std::to_string(options.image_size) +
                          " leaves one value of a channel to the batch norms of a micro-batch of "
                          "one image, and they need two: choose another --split_size, or larger "
                          "images");
}

}  // namespace

CommandLine parse_command_line(int argc, const char* const* argv) {
  CommandLine result;
  Options& options = result.options;
  std::string schedule = to_string(options.schedule);
  CLI::App app(
      "Trains a ResNet-50 on random images on the CPU, whole or in two stages that are workers of "
      "ddprun. The loss is the mean squared error.",
      "resnet50_pipeline");
  app.add_option("--stages", options.stages,
                 "1: every worker has the whole model; 2: conv1 to layer2, and layer3 to fc. "
                 "Workers beyond are replicas, whose gradients are averaged")
      ->check(whole(1, 2))
      ->capture_default_str();
  app.add_option("--split_size", options.split_size,
                 "images of a micro-batch (0: the whole batch is one)")
      ->check(whole(0, kCountMax))
      ->capture_default_str();
  app.add_option("--schedule", schedule, "fill_drain or 1f1b: the order of a stage's passes")
      ->check(CLI::IsMember({"fill_drain", "1f1b"}))
      ->capture_default_str();
  app.add_option("--batches", options.batches, "number of batches to train with")
      ->check(whole(1, kCountMax))
      ->capture_default_str();
  app.add_option("--batch_size", options.batch_size, "images of a batch, of each replica")
      ->check(whole(1, kCountMax))
      ->capture_default_str();
  app.add_option("--image_size", options.image_size, "pixels of an image's side")
      ->check(whole(1, kImageSizeMax))
      ->capture_default_str();
  app.add_option("--classes", options.classes, "number of classes of the images")
      ->check(whole(1, kCountMax))
      ->capture_default_str();
  app.add_option("--lr", options.lr, "learning rate of SGD")
      ->check(between(0, 1e3))
      ->capture_default_str();
  app.add_option("--seed", options.seed, "seed of the parameters' first values and of the images")
      ->check(whole(0, kSeedMax))
      ->capture_default_str();
  app.add_option("--metrics", options.metrics, "write JSON lines: start, batches, end")
      ->type_name("FILE");
  result.help = parse(app, argc, argv);
  if (!result.help.empty()) return result;
  options.schedule = ddprun::parse_pipeline_schedule(schedule).value_or(options.schedule);
  refuse_single_values(options);
  return result;
}

}  // namespace trainer::resnet50
