// The layers of the trainer's models, each with an explicit forward and backward pass. A layer owns
// its parameters but no activations: the model hands it the matrices to read and to write.
#pragma once

#include "trainers/trainer/matrix.hpp"

#include <cstddef>
#include <functional>
#include <random>
#include <span>
#include <string>
#include <vector>

namespace trainer {

/// A trainable parameter. Its gradient lives where the reducer wants it, so that nothing is copied
/// before it is averaged over the workers.
struct Parameter {
  std::string name;
  std::size_t index = 0;           ///< position among all parameters of the model
  std::vector<std::size_t> shape;  ///< its dimensions
  std::vector<float> values;
  std::span<float> gradient;  ///< as many elements as values; backward passes add to it
};

/// State that is not trained by gradients, such as running statistics.
using StateBuffer = std::vector<float>;

enum class Mode { train, evaluate };

/// Called as soon as the gradient of a parameter is complete for this backward pass, so that its
/// communication runs while earlier layers still compute.
using GradientReady = std::function<void(const Parameter&)>;

/// What a layer needs for its backward pass. `input` and `output` are those of the last forward
/// pass in Mode::train.
struct BackwardPass {
  const Matrix& input;            ///< [rows, inputs]
  const Matrix& output;           ///< [rows, outputs]
  const Matrix& output_gradient;  ///< [rows, outputs]
  Matrix* input_gradient;         ///< [rows, inputs], written unless null: nobody needs it
};

class Layer {
 public:
  virtual ~Layer() = default;

  virtual void forward(const Matrix& input, Matrix& output, Mode mode) = 0;
  virtual void backward(const BackwardPass& pass, const GradientReady& ready) = 0;
  virtual std::vector<Parameter*> parameters() { return {}; }
  virtual std::vector<StateBuffer*> buffers() { return {}; }
};

/// output = input * transposed(weight) + bias. Starts as PyTorch's Linear does: uniform within
/// 1/sqrt(inputs).
class Linear : public Layer {
 public:
  Linear(std::size_t inputs, std::size_t outputs, std::mt19937& random);

  void forward(const Matrix& input, Matrix& output, Mode mode) override;
  void backward(const BackwardPass& pass, const GradientReady& ready) override;
  std::vector<Parameter*> parameters() override { return {&weight_, &bias_}; }

 private:
  std::size_t inputs_;
  std::size_t outputs_;
  Parameter weight_;  ///< [outputs, inputs]
  Parameter bias_;    ///< [outputs]
};

class Relu : public Layer {
 public:
  void forward(const Matrix& input, Matrix& output, Mode mode) override;
  void backward(const BackwardPass& pass, const GradientReady& ready) override;
};

class Sigmoid : public Layer {
 public:
  void forward(const Matrix& input, Matrix& output, Mode mode) override;
  void backward(const BackwardPass& pass, const GradientReady& ready) override;
};

/// The logarithm of softmax over each row.
class LogSoftmax : public Layer {
 public:
  void forward(const Matrix& input, Matrix& output, Mode mode) override;
  void backward(const BackwardPass& pass, const GradientReady& ready) override;
};

/// Normalises each column over the rows of this worker's batch (Ioffe and Szegedy, 2015), with
/// PyTorch's epsilon, momentum and unbiased running variance. A batch of less than two rows leaves
/// the running statistics alone.
class BatchNorm : public Layer {
 public:
  explicit BatchNorm(std::size_t columns);

  void forward(const Matrix& input, Matrix& output, Mode mode) override;
  void backward(const BackwardPass& pass, const GradientReady& ready) override;
  std::vector<Parameter*> parameters() override { return {&scale_, &shift_}; }
  std::vector<StateBuffer*> buffers() override { return {&running_mean_, &running_variance_}; }

 private:
  void measure(const Matrix& input);
  void update_running_statistics(std::size_t rows);

  std::size_t columns_;
  Parameter scale_;
  Parameter shift_;
  StateBuffer running_mean_;
  StateBuffer running_variance_;
  std::vector<float> mean_;               ///< of the last batch
  std::vector<float> variance_;           ///< of the last batch, biased
  std::vector<float> inverse_deviation_;  ///< as used by the last forward pass
};

}  // namespace trainer
