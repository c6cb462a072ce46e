// The first layer of a model that begins with an embedding, which may be elsewhere than the rest.
#pragma once

#include "trainers/trainer/layers.hpp"

#include <random>
#include <vector>

namespace trainer {

/// Carries matrices between two places by way of the program's memory.
class Transfer {
 public:
  /// Waits for the place that the matrix comes from. At least one of the two computes in float32.
  void carry(const Matrix& matrix, const Place& from, Matrix& result, const Place& to);

 private:
  std::vector<float> values_;
  Matrix exact_;  ///< in float32 at the place that computes in another type
};

/// The sum of the table's rows for the tokens of a sample. Its input is [rows, tokens] int32, so it
/// is a model's first layer.
class EmbeddingLayer : public Layer {
 public:
  /// Starts as a linear layer with `tokens` inputs does. The table and the tokens are in the
  /// embedding's place, the output is where the rest is.
  EmbeddingLayer(const Places& places, std::size_t tokens, std::size_t vocabulary,
                 std::size_t channels, std::mt19937& random);

  void forward(const Matrix& input, Matrix& output, Mode mode) override;
  void backward(const BackwardPass& pass, const GradientReady& ready) override;
  std::vector<Parameter*> parameters() override { return {&table_}; }

 private:
  bool is_apart() const { return places_.embedding.compute != places_.rest.compute; }

  Places places_;
  std::size_t channels_;
  Parameter table_;  ///< [vocabulary, channels]
  Transfer transfer_;
  Matrix sums_;      ///< where the table is, if that is apart: the output
  Matrix gradient_;  ///< and its gradient
};

}  // namespace trainer
