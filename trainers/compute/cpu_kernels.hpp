// Operations on CPU memory, for Real = float and double. Arrays must have been checked.
// Thread-safe for separate arrays.
#pragma once

#include "trainers/compute/operations.hpp"

namespace trainer::cpu {

template <typename Real>
void compute(const MatrixProduct& operation);
template <typename Real>
void compute(const SumOfRows& operation);
template <typename Real>
void compute(const Embedding& operation);
template <typename Real>
void compute(const EmbeddingBackward& operation);
template <typename Real>
void compute(const EmbeddingBag& operation);
template <typename Real>
void compute(const EmbeddingBagBackward& operation);
template <typename Real>
void compute(const LayerNorm& operation);
template <typename Real>
void compute(const LayerNormBackward& operation);
template <typename Real>
void compute(const Attention& operation);
template <typename Real>
void compute(const AttentionBackward& operation);
template <typename Real>
void compute(const Gelu& operation);
template <typename Real>
void compute(const GeluBackward& operation);
template <typename Real>
void compute(const BatchNorm& operation);
template <typename Real>
void compute(const BatchNormBackward& operation);
template <typename Real>
void compute(const Activation& operation);
template <typename Real>
void compute(const ActivationBackward& operation);
template <typename Real>
void compute(const CrossEntropy& operation);
template <typename Real>
void compute(const MeanSquaredError& operation);
template <typename Real>
void compute(const AddSum& operation);
template <typename Real>
void compute(const AdamW& operation);
template <typename Real>
void compute(const Sgd& operation);
/// Converts from Real to the output's type.
template <typename Real>
void compute(const Convert& operation);

/// Returns the elements of an array.
template <typename Real>
Real* values_of(const Buffer& buffer) {
  return static_cast<Real*>(buffer.data);
}

}  // namespace trainer::cpu
