// Data sets in memory and the batches that are taken from them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

namespace trainer {

/// Inputs are kept as bytes, which is a quarter of the memory of floats and all the precision that
/// pictures have; a batch turns them into value * scale + shift.
struct Dataset {
  std::size_t samples = 0;
  std::size_t features = 0;          ///< inputs of a sample
  std::size_t outputs = 0;           ///< classes, or targets, of a sample
  std::vector<std::uint8_t> inputs;  ///< [samples, features]
  float scale = 1;
  float shift = 0;
  std::vector<std::uint8_t> labels;  ///< [samples], each below `outputs`; empty: targets instead
  std::vector<float> targets;        ///< [samples, outputs], empty if there are labels
};

/// Shades of a pixel that tokens tell apart.
inline constexpr std::size_t kShades = 16;

struct Batch {
  bool as_tokens = false;  ///< the inputs are wanted as tokens
  std::size_t rows = 0;
  std::size_t features = 0;
  std::vector<float> inputs;  ///< [rows, features], unless as_tokens
  /// [rows, features], if as_tokens: kShades for each pixel, so that a token is one shade of one.
  std::vector<std::int32_t> tokens;
  std::vector<std::int32_t> labels;  ///< [rows] if the data set has labels
  std::vector<float> targets;        ///< [rows, outputs]; of labels: 1 for the class, 0 elsewhere
};

/// Copies the samples with these indices. The batch's memory is reused.
void gather(const Dataset& dataset, std::span<const std::int64_t> indices, Batch& batch);

struct TrainAndTest {
  Dataset train;
  Dataset test;
};

/// Fashion-MNIST, or another data set in MNIST's four files. Throws Error{Errc::usage} naming the
/// file, and the command that installs the data if it is missing.
TrainAndTest load_fashion_mnist(const std::filesystem::path& folder);

struct RandomDataSpec {
  std::size_t train_samples = 2048;  // as in PyTorch's tutorials
  std::size_t test_samples = 512;
  std::size_t features = 0;
  std::size_t outputs = 0;
  bool labels = false;  ///< classes drawn at random rather than targets within [0, 1)
  std::uint64_t seed = 0;
};

/// Noise of the wanted shape, for trying things out: nothing can be learned from it.
TrainAndTest make_random_data(const RandomDataSpec& spec);

}  // namespace trainer
