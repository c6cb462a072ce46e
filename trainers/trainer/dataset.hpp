// In-memory data sets and batches.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

namespace trainer {

/// Inputs are stored as bytes, the precision of images, in a quarter of the memory of floats; a
/// batch converts them to value * scale + shift.
struct Dataset {
  std::size_t samples = 0;
  std::size_t features = 0;          ///< inputs per sample
  std::size_t outputs = 0;           ///< classes or targets per sample
  std::vector<std::uint8_t> inputs;  ///< [samples, features]
  float scale = 1;
  float shift = 0;
  std::vector<std::uint8_t> labels;  ///< [samples], each below `outputs`; empty: targets instead
  std::vector<float> targets;        ///< [samples, outputs], empty if there are labels
};

/// Number of shades of a pixel in tokens.
inline constexpr std::size_t kShades = 16;

struct Batch {
  bool as_tokens = false;  ///< convert inputs to tokens
  std::size_t rows = 0;
  std::size_t features = 0;
  std::vector<float> inputs;  ///< [rows, features], unless as_tokens
  /// [rows, features] if as_tokens: token = shade + kShades * pixel.
  std::vector<std::int32_t> tokens;
  std::vector<std::int32_t> labels;  ///< [rows] if the data set has labels
  std::vector<float> targets;        ///< [rows, outputs]; of labels: 1 for the class, 0 elsewhere
};

/// Copies the samples with these indices. Reuses the batch's memory.
void gather(const Dataset& dataset, std::span<const std::int64_t> indices, Batch& batch);

struct TrainAndTest {
  Dataset train;
  Dataset test;
};

/// Loads Fashion-MNIST, or another data set in MNIST's four files. Throws Error{Errc::usage} with
/// the file's name, and with the command that installs the data if it is missing.
TrainAndTest load_fashion_mnist(const std::filesystem::path& folder);

struct RandomDataSpec {
  std::size_t train_samples = 2048;  // as in PyTorch's tutorials
  std::size_t test_samples = 512;
  std::size_t features = 0;
  std::size_t outputs = 0;
  bool labels = false;  ///< random classes instead of targets within [0, 1)
  std::uint64_t seed = 0;
};

/// Returns noise of the given shape, for tests and benchmarks.
TrainAndTest make_random_data(const RandomDataSpec& spec);

}  // namespace trainer
