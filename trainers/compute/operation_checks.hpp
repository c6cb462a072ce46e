// Checks that the arrays of an operation exist, are large enough and have valid types, for all
// implementations of Compute. Pure; thread-safe.
#pragma once

#include "trainers/compute/operations.hpp"

namespace trainer {

/// These functions throw Error{Errc::usage} that names the operation and the array: "layer norm:
/// mean has 3 elements, 4 are needed". Arrays must be on `device`. Devices check whether they
/// support the type of the activations.
void check(const MatrixProduct& operation, ddprun::Device device);
void check(const SumOfRows& operation, ddprun::Device device);
void check(const Embedding& operation, ddprun::Device device);
void check(const EmbeddingBackward& operation, ddprun::Device device);
void check(const EmbeddingBag& operation, ddprun::Device device);
void check(const EmbeddingBagBackward& operation, ddprun::Device device);
void check(const LayerNorm& operation, ddprun::Device device);
void check(const LayerNormBackward& operation, ddprun::Device device);
void check(const Attention& operation, ddprun::Device device);
void check(const AttentionBackward& operation, ddprun::Device device);
void check(const Gelu& operation, ddprun::Device device);
void check(const GeluBackward& operation, ddprun::Device device);
void check(const BatchNorm& operation, ddprun::Device device);
void check(const BatchNormBackward& operation, ddprun::Device device);
void check(const Activation& operation, ddprun::Device device);
void check(const ActivationBackward& operation, ddprun::Device device);
void check(const CrossEntropy& operation, ddprun::Device device);
void check(const MeanSquaredError& operation, ddprun::Device device);
void check(const AddSum& operation, ddprun::Device device);
void check(const AdamW& operation, ddprun::Device device);
void check(const Sgd& operation, ddprun::Device device);
void check(const Convert& operation, ddprun::Device device);

/// Throws Error{Errc::usage} unless `bytes` equals the size of `buffer`.
void refuse_other_size(const char* what, std::size_t bytes, const Buffer& buffer);

}  // namespace trainer
