// A chain of layers with its activations. The models of the trainer are made by make_model().
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

  /// [rows, inputs] -> [rows, outputs]. `input` must stay as it is until backward().
  Matrix& forward(const Matrix& input, Mode mode);

  /// Adds to the parameters' gradients, last layer first, calling `ready` for each.
  /// `output_gradient` may have taken the place of what forward() returned if the last layer is
  /// linear, which does without its output.
  void backward(const Matrix& input, const Matrix& output_gradient, const GradientReady& ready);

  /// In order of definition, which is the same on every worker.
  const std::vector<Parameter*>& parameters() const { return parameters_; }
  const std::vector<StateBuffer*>& buffers() const { return buffers_; }

 private:
  std::vector<std::unique_ptr<Layer>> layers_;
  std::vector<Parameter*> parameters_;
  std::vector<StateBuffer*> buffers_;
  std::vector<Matrix> activations_;  ///< output of each layer
  std::vector<Matrix> gradients_;    ///< gradient by each layer's input; the first is not needed
};

struct ModelSpec {
  std::string name;            ///< one of kModelNames
  std::size_t inputs = 0;      ///< features of a sample; bag: tokens
  std::size_t outputs = 0;     ///< classes or targets of a sample
  bool batch_norm = false;     ///< mlp: BatchNorm before each ReLU
  std::uint64_t seed = 0;      ///< for the first values of the parameters
  std::size_t vocabulary = 0;  ///< bag: different tokens
};

/// linear: one Linear. toy: 10 hidden units. mlp: 256 and 128 hidden units with ReLU.
/// seqnet: twice 200 hidden units with sigmoid. bag: the inputs are tokens, whose embeddings of 64
/// channels are added up; a ReLU and a Linear. Of classes they give the logits.
inline constexpr const char* kModelNames[] = {"linear", "toy", "mlp", "seqnet", "bag"};

/// Throws Error{Errc::usage} for another name, and for a type that a place does not compute in.
Model make_model(const ModelSpec& spec, const Places& places);
inline Model make_model(const ModelSpec& spec, const Place& place) {
  return make_model(spec, Places{place, place});
}

}  // namespace trainer
