// Embedding layer, the first layer of a model, possibly on another device than the rest.
#pragma once

#include "trainers/trainer/layers.hpp"

#include <random>
#include <vector>

namespace trainer {

/// Copies matrices between two places through host memory.
class Transfer {
 public:
  /// Waits for the source's device. At least one of the two places computes in float32.
  void carry(const Matrix& matrix, const Place& from, Matrix& result, const Place& to);

 private:
  std::vector<float> values_;
  Matrix exact_;  ///< float32 copy at the place that computes in another type
};

/// Sum of the table's rows of a sample's tokens. Its input is [rows, tokens] int32, so it must be a
/// model's first layer.
class EmbeddingLayer : public Layer {
 public:
  /// Initialised like a linear layer with `tokens` inputs. The table and the tokens are at the
  /// embedding's place, the output at the place of the rest.
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
  Matrix sums_;      ///< output at the table's place, if that differs
  Matrix gradient_;  ///< gradient of sums_
};

}  // namespace trainer
