// GPT-2 with an explicit forward and backward pass over preallocated arrays. Runs on any Compute.
// One thread at a time.
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
  /// of the values' type, or another one that Compute allows; backward passes add to it
  Buffer gradient;
};

/// Sequences in device memory: their tokens, and the next token of each.
struct Batch {
  Array inputs;   ///< [sequences, context] int32, each below the vocabulary
  Array targets;  ///< the same
};

/// Returns a batch of zero tokens.
Batch make_batch(Compute& compute, std::size_t sequences, std::size_t context);

/// Returns a view of `count` of its sequences.
Batch part_of(const Batch& batch, std::size_t first, std::size_t count, std::size_t context);

/// Called with a parameter's index when its gradient is complete in a backward pass, so that its
/// all-reduce overlaps with the computation of earlier layers.
using GradientReady = std::function<void(std::size_t index)>;

class Model {
 public:
  /// Allocates memory for `sequences_max` sequences at a time; parameters are zero. `compute` must
  /// outlive this object. Throws Error{Errc::usage} for an invalid shape or type, Errc::system or
  /// cuda if memory is insufficient.
  Model(Compute& compute, const Shape& shape, std::size_t sequences_max, ddprun::DataType type);

  /// Sets the parameters to first_values().
  void initialise(std::uint64_t seed);

  /// In order of definition, as in parameters_of().
  std::vector<ModelParameter>& parameters() { return parameters_; }
  const std::vector<ModelParameter>& parameters() const { return parameters_; }

  /// Computes the loss of the batch's sequences and adds the sum over the rows to `total`, a
  /// float64 on the device. With a gradient_scale above 0, backward() may follow, with the gradient
  /// of that sum scaled; the batch's memory is then kept until the next such pass.
  void forward(const Batch& batch, const Buffer& total, double gradient_scale);

  /// Accumulates the parameters' gradients, last layer first.
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
  Batch batch_;                ///< batch of the last forward pass with a gradient
  std::size_t sequences_ = 0;  ///< of the last forward pass
};

}  // namespace trainer::gpt2
