#include "trainers/trainer/dataset.hpp"

#include "trainers/trainer/idx_file.hpp"
#include <ddprun/error.hpp>

#include <algorithm>
#include <random>
#include <string>
#include <utility>

namespace trainer {

namespace {

using ddprun::Errc;
using ddprun::Error;

constexpr std::size_t kClasses = 10;

Dataset load_part(const std::filesystem::path& folder, const std::string& part) {
  const auto images_path = folder / (part + "-images-idx3-ubyte.gz");
  const auto labels_path = folder / (part + "-labels-idx1-ubyte.gz");
  for (const auto& path : {images_path, labels_path}) {
    if (std::filesystem::exists(path)) continue;
    throw Error(Errc::usage, path.string() +
                                 " is not there: install it with 'apt-get install "
                                 "dataset-fashion-mnist', name its folder with --data_dir, or use "
                                 "--dataset random");
  }
  IdxArray images = read_idx(images_path, 3);
  IdxArray labels = read_idx(labels_path, 1);
  if (images.dimensions[0] != labels.dimensions[0]) {
    throw Error(Errc::usage, images_path.string() + " has " + std::to_string(images.dimensions[0]) +
                                 " images, but " + labels_path.string() + " has " +
                                 std::to_string(labels.dimensions[0]) + " labels");
  }
  const auto largest = std::max_element(labels.values.begin(), labels.values.end());
  if (*largest >= kClasses) {
    throw Error(Errc::usage, labels_path.string() + ": label " + std::to_string(*largest) +
                                 " of sample " + std::to_string(largest - labels.values.begin()) +
                                 " is not below " + std::to_string(kClasses));
  }
  // Mean and standard deviation of Fashion-MNIST's training pixels as fractions of 255.
  constexpr float kMean = 0.2860F;
  constexpr float kDeviation = 0.3530F;
  return {.samples = images.dimensions[0],
          .features = images.dimensions[1] * images.dimensions[2],
          .outputs = kClasses,
          .inputs = std::move(images.values),
          .scale = 1 / (255 * kDeviation),
          .shift = -kMean / kDeviation,
          .labels = std::move(labels.values),
          .targets = {}};
}

Dataset make_random_part(const RandomDataSpec& spec, std::size_t samples, std::mt19937& random) {
  Dataset dataset = {.samples = samples,
                     .features = spec.features,
                     .outputs = spec.outputs,
                     .inputs = std::vector<std::uint8_t>(samples * spec.features),
                     .scale = 1.0F / 255,
                     .shift = 0,
                     .labels = {},
                     .targets = {}};
  for (auto& value : dataset.inputs) value = static_cast<std::uint8_t>(random() >> 24);
  if (spec.labels) {
    dataset.labels.resize(samples);
    for (auto& label : dataset.labels) label = static_cast<std::uint8_t>(random() % spec.outputs);
  } else {
    dataset.targets.resize(samples * spec.outputs);
    for (auto& target : dataset.targets) target = static_cast<float>(random() >> 8) * 0x1p-24F;
  }
  return dataset;
}

void write_inputs(const Dataset& dataset, std::size_t sample, Batch& batch, std::size_t row) {
  const std::uint8_t* from = dataset.inputs.data() + sample * dataset.features;
  if (batch.as_tokens) {
    constexpr std::size_t kBytesOfShade = 256 / kShades;
    std::int32_t* to = batch.tokens.data() + row * dataset.features;
    for (std::size_t i = 0; i < dataset.features; ++i) {
      to[i] = static_cast<std::int32_t>(i * kShades + from[i] / kBytesOfShade);
    }
    return;
  }
  float* to = batch.inputs.data() + row * dataset.features;
  for (std::size_t i = 0; i < dataset.features; ++i) {
    to[i] = static_cast<float>(from[i]) * dataset.scale + dataset.shift;
  }
}

}  // namespace

void gather(const Dataset& dataset, std::span<const std::int64_t> indices, Batch& batch) {
  batch.rows = indices.size();
  batch.features = dataset.features;
  batch.inputs.resize(batch.as_tokens ? 0 : indices.size() * dataset.features);
  batch.tokens.resize(batch.as_tokens ? indices.size() * dataset.features : 0);
  batch.targets.resize(indices.size() * dataset.outputs);
  batch.labels.resize(dataset.labels.empty() ? 0 : indices.size());
  for (std::size_t row = 0; row < indices.size(); ++row) {
    const auto sample = static_cast<std::size_t>(indices[row]);
    write_inputs(dataset, sample, batch, row);
    float* targets = batch.targets.data() + row * dataset.outputs;
    if (dataset.labels.empty()) {
      std::copy_n(dataset.targets.data() + sample * dataset.outputs, dataset.outputs, targets);
    } else {
      batch.labels[row] = dataset.labels[sample];
      std::fill_n(targets, dataset.outputs, 0.0F);
      targets[batch.labels[row]] = 1;
    }
  }
}

TrainAndTest load_fashion_mnist(const std::filesystem::path& folder) {
  TrainAndTest data = {.train = load_part(folder, "train"), .test = load_part(folder, "t10k")};
  if (data.train.features != data.test.features) {
    throw Error(Errc::usage, folder.string() + ": training images have " +
                                 std::to_string(data.train.features) + " pixels, test images " +
                                 std::to_string(data.test.features));
  }
  return data;
}

TrainAndTest make_random_data(const RandomDataSpec& spec) {
  std::mt19937 random(static_cast<std::mt19937::result_type>(spec.seed));
  TrainAndTest data;
  data.train = make_random_part(spec, spec.train_samples, random);
  data.test = make_random_part(spec, spec.test_samples, random);
  return data;
}

}  // namespace trainer
