// A sequence of layers with activations. make_model() creates the trainer's models.
#pragma once

#include "trainers/trainer/layers.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace trainer {

class Model {
 public:
  explicit Model(std::vector<std::unique_ptr<Layer>> layers);

  /// Maps [rows, inputs] to [rows, outputs]. `input` must not change until backward().
  Matrix& forward(const Matrix& input, Mode mode);

  /// Accumulates the parameters' gradients, last layer first, and calls `ready` for each.
  /// `output_gradient` may share storage with the result of forward() (overwriting it) if the last
  /// layer is linear, since that layer does not use its output.
  void backward(const Matrix& input, const Matrix& output_gradient, const GradientReady& ready);

  /// Returns the parameters in order of definition, which is equal on all workers.
  const std::vector<Parameter*>& parameters() const { return parameters_; }
  const std::vector<StateBuffer*>& buffers() const { return buffers_; }

 private:
  std::vector<std::unique_ptr<Layer>> layers_;
  std::vector<Parameter*> parameters_;
  std::vector<StateBuffer*> buffers_;
  std::vector<Matrix> activations_;  ///< output of each layer
  std::vector<Matrix> gradients_;    ///< gradient of each layer's input; the first one is unused
};

struct ModelSpec {
  std::string name;            ///< one of kModelNames
  std::size_t inputs = 0;      ///< features of a sample; bag: tokens
  std::size_t outputs = 0;     ///< classes or targets of a sample
  bool batch_norm = false;     ///< mlp: BatchNorm before each ReLU
  std::uint64_t seed = 0;      ///< seed for the initial values of the parameters
  std::size_t vocabulary = 0;  ///< bag: number of different tokens
};

/// linear: one Linear. toy: 10 hidden units. mlp: 256 and 128 hidden units with ReLU. seqnet: twice
/// 200 hidden units with sigmoid. bag: sums of 64-channel token embeddings, a ReLU and a Linear.
/// With classes, outputs are logits.
inline constexpr const char* kModelNames[] = {"linear", "toy", "mlp", "seqnet", "bag"};

/// Throws Error{Errc::usage} for an unknown name, and for a type that a place does not support.
Model make_model(const ModelSpec& spec, const Places& places);
inline Model make_model(const ModelSpec& spec, const Place& place) {
  return make_model(spec, Places{place, place});
}

}  // namespace trainer
