// Layers of the trainer's models, with explicit forward and backward passes. A layer owns its
// parameters but no activations: the model passes the matrices to read and write, which are never
// empty.
#pragma once

#include "trainers/trainer/matrix.hpp"
#include "trainers/trainer/parameter.hpp"

#include <cstddef>
#include <random>
#include <vector>

namespace trainer {

enum class Mode { train, evaluate };

/// Arguments of a layer's backward pass. `input` and `output` are those of the last forward pass in
/// Mode::train.
struct BackwardPass {
  const Matrix& input;            ///< [rows, inputs]
  const Matrix& output;           ///< [rows, outputs]
  const Matrix& output_gradient;  ///< [rows, outputs]
  Matrix* input_gradient;         ///< [rows, inputs], written; null if not needed
};

class Layer {
 public:
  virtual ~Layer() = default;

  virtual void forward(const Matrix& input, Matrix& output, Mode mode) = 0;
  virtual void backward(const BackwardPass& pass, const GradientReady& ready) = 0;
  virtual std::vector<Parameter*> parameters() { return {}; }
  virtual std::vector<StateBuffer*> buffers() { return {}; }
};

/// output = input * transposed(weight) + bias. Initialised like PyTorch's Linear: uniform within
/// 1/sqrt(inputs).
class LinearLayer : public Layer {
 public:
  LinearLayer(const Place& place, std::size_t inputs, std::size_t outputs, std::mt19937& random);

  void forward(const Matrix& input, Matrix& output, Mode mode) override;
  void backward(const BackwardPass& pass, const GradientReady& ready) override;
  std::vector<Parameter*> parameters() override { return {&weight_, &bias_}; }

 private:
  Place place_;
  std::size_t inputs_;
  std::size_t outputs_;
  Parameter weight_;  ///< [outputs, inputs]
  Parameter bias_;    ///< [outputs]
};

class ActivationLayer : public Layer {
 public:
  ActivationLayer(const Place& place, ActivationFunction function)
      : place_(place), function_(function) {}

  void forward(const Matrix& input, Matrix& output, Mode mode) override;
  void backward(const BackwardPass& pass, const GradientReady& ready) override;

 private:
  Place place_;
  ActivationFunction function_;
};

/// Normalises each column over the rows of this worker's batch, with PyTorch's epsilon, momentum
/// and unbiased running variance.
class BatchNormLayer : public Layer {
 public:
  BatchNormLayer(const Place& place, std::size_t columns);

  void forward(const Matrix& input, Matrix& output, Mode mode) override;
  void backward(const BackwardPass& pass, const GradientReady& ready) override;
  std::vector<Parameter*> parameters() override { return {&scale_, &shift_}; }
  std::vector<StateBuffer*> buffers() override { return {&running_mean_, &running_variance_}; }

 private:
  Place place_;
  std::size_t columns_;
  Parameter scale_;
  Parameter shift_;
  StateBuffer running_mean_;
  StateBuffer running_variance_;
  StateBuffer mean_;               ///< mean used by the last forward pass
  StateBuffer inverse_deviation_;  ///< value used by the last forward pass
};

}  // namespace trainer
