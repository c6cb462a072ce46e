// Activations of a forward pass, and scratch arrays of both passes. Allocated once for the largest
// batch. Shapes in brackets; rows are the tokens of all sequences.
#pragma once

#include "trainers/compute/compute.hpp"
#include "trainers/gpt2/shape.hpp"

#include <vector>

namespace trainer::gpt2 {

struct Normalised {
  Array output;             ///< [rows, channels]
  Array mean;               ///< [rows]
  Array inverse_deviation;  ///< [rows]
};

struct LayerActivations {
  Array residual;  ///< [rows, channels], input of the layer
  Normalised norm1;
  Array projections;  ///< [rows, 3 * channels], queries, keys and values
  Array attended;     ///< [rows, channels], output of the heads
  Array log_sum;      ///< [sequences, heads, context]
  Array middle;       ///< [rows, channels], residual path after attention
  Normalised norm2;
  Array hidden;     ///< [rows, 4 * channels]
  Array activated;  ///< [rows, 4 * channels]
};

struct Activations {
  std::vector<LayerActivations> layers;
  Array residual;  ///< [rows, channels], output of the last layer
  Normalised final_norm;
  Array logits;  ///< [rows, padded vocabulary]; after the loss their gradient
  Array losses;  ///< [rows]
  Array branch;  ///< [rows, channels], to be added to the residual path

  Array residual_gradient;    ///< [rows, channels], of each layer in turn
  Array normalised_gradient;  ///< [rows, channels]
  Array wide_gradient;        ///< [rows, 4 * channels]
};

Activations make_activations(Compute& compute, const Shape& shape, std::size_t sequences,
                             ddprun::DataType type);

}  // namespace trainer::gpt2
