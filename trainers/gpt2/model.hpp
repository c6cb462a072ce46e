// A GPT-2 with an explicit forward and backward pass: the same few lines for each layer, one way
// and back, over arrays that were made at the beginning. Runs on whatever Compute is given. One
// thread at a time.
#pragma once

#include "trainers/gpt2/activations.hpp"
#include "trainers/gpt2/shape.hpp"

#include <cstdint>
#include <functional>
#include <vector>

namespace trainer::gpt2 {

struct ModelParameter {
  ParameterSpec spec;
  Array values;
  Buffer gradient;  ///< of the values' type or as Compute allows; backward passes add to it
};

/// Sequences in the device's memory: their tokens, and for each the one that follows it.
struct Batch {
  Array inputs;   ///< [sequences, context] int32, all of them below the vocabulary
  Array targets;  ///< the same
};

/// With token 0 all over.
Batch make_batch(Compute& compute, std::size_t sequences, std::size_t context);

/// `count` of its sequences, in the same memory.
Batch part_of(const Batch& batch, std::size_t first, std::size_t count, std::size_t context);

/// Called with a parameter's index as soon as its gradient is complete for this backward pass, so
/// that its communication runs while earlier layers still compute.
using GradientReady = std::function<void(std::size_t index)>;

class Model {
 public:
  /// Memory for `sequences_max` sequences at a time; parameters are zero. `compute` must outlive
  /// it. Throws Error{Errc::usage} for a shape or a type that cannot be, Errc::system or cuda if
  /// there is not enough memory.
  Model(Compute& compute, const Shape& shape, std::size_t sequences_max, ddprun::DataType type);

  /// Fills the parameters with first_values().
  void initialise(std::uint64_t seed);

  /// In order of definition, as in parameters_of().
  std::vector<ModelParameter>& parameters() { return parameters_; }
  const std::vector<ModelParameter>& parameters() const { return parameters_; }

  /// Computes the loss of the batch's sequences and adds the sum of its rows to `total`, a float64
  /// on the device. With a gradient_scale above 0, backward() may follow and scales the gradient of
  /// that sum by it; the batch's memory is then kept until the next such pass.
  void forward(const Batch& batch, const Buffer& total, double gradient_scale);

  /// Adds to the parameters' gradients, last layer first.
  void backward(const GradientReady& ready);

  const Shape& shape() const { return shape_; }

 private:
  struct LinearRun;

  const Buffer& weight(std::size_t index) const { return parameters_[index].values.buffer; }
  const Buffer& gradient(std::size_t index) const { return parameters_[index].gradient; }
  void normalise(const Buffer& input, const Buffer* addend, const Buffer& sum,
                 std::size_t weight_index, const Normalised& to);
  void normalise_backward(const Buffer& input, std::size_t weight_index, const Normalised& from,
                          const GradientReady& ready);
  void apply(const LinearRun& linear);
  void apply_backward(const LinearRun& linear, const Buffer& input_gradient,
                      const GradientReady& ready);
  void forward_layer(std::size_t layer);
  void backward_layer(std::size_t layer, const GradientReady& ready);
  void compute_loss(const Buffer& targets, const Buffer& total, double gradient_scale);

  Compute& compute_;
  Shape shape_;
  std::size_t sequences_max_;
  std::vector<ModelParameter> parameters_;
  Activations activations_;
  Batch batch_;                ///< of the last forward pass that backward() may follow
  std::size_t sequences_ = 0;  ///< of the last forward pass
};

}  // namespace trainer::gpt2
