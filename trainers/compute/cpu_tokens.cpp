// Operations on tokens: embeddings and cross-entropy.
#include "trainers/compute/cpu_kernels.hpp"
#include "trainers/compute/cpu_math.hpp"

#include <algorithm>
#include <cmath>

namespace trainer::cpu {

template <typename Real>
void compute(const Embedding& o) {
  const auto* tokens = values_of<std::int32_t>(o.tokens);
  for (std::size_t row = 0; row < o.rows; ++row) {
    const std::size_t token = static_cast<std::size_t>(tokens[row]);
    const Real* meaning = values_of<Real>(o.token_table) + token * o.channels;
    const Real* position = values_of<Real>(o.position_table) + (row % o.context) * o.channels;
    Real* output = values_of<Real>(o.output) + row * o.channels;
    for (std::size_t i = 0; i < o.channels; ++i) output[i] = meaning[i] + position[i];
  }
}

template <typename Real>
void compute(const EmbeddingBackward& o) {
  const auto* tokens = values_of<std::int32_t>(o.tokens);
  for (std::size_t row = 0; row < o.rows; ++row) {
    const std::size_t token = static_cast<std::size_t>(tokens[row]);
    const Real* gradient = values_of<Real>(o.output_gradient) + row * o.channels;
    Real* meaning = values_of<Real>(o.token_gradient) + token * o.channels;
    Real* position = values_of<Real>(o.position_gradient) + (row % o.context) * o.channels;
    for (std::size_t i = 0; i < o.channels; ++i) meaning[i] += gradient[i];
    for (std::size_t i = 0; i < o.channels; ++i) position[i] += gradient[i];
  }
}

template <typename Real>
void compute(const EmbeddingBag& o) {
  const auto* tokens = values_of<std::int32_t>(o.tokens);
  for (std::size_t row = 0; row < o.rows; ++row) {
    Real* output = values_of<Real>(o.output) + row * o.channels;
    std::fill_n(output, o.channels, Real{0});
    for (std::size_t k = 0; k < o.bag; ++k) {
      const std::size_t token = static_cast<std::size_t>(tokens[row * o.bag + k]);
      const Real* meaning = values_of<Real>(o.table) + token * o.channels;
      for (std::size_t i = 0; i < o.channels; ++i) output[i] += meaning[i];
    }
  }
}

template <typename Real>
void compute(const EmbeddingBagBackward& o) {
  const auto* tokens = values_of<std::int32_t>(o.tokens);
  for (std::size_t row = 0; row < o.rows; ++row) {
    const Real* gradient = values_of<Real>(o.output_gradient) + row * o.channels;
    for (std::size_t k = 0; k < o.bag; ++k) {
      const std::size_t token = static_cast<std::size_t>(tokens[row * o.bag + k]);
      Real* meaning = values_of<Real>(o.table_gradient) + token * o.channels;
      for (std::size_t i = 0; i < o.channels; ++i) meaning[i] += gradient[i];
    }
  }
}

namespace {

/// Returns the loss and replaces the logits by e^(logit - largest) * factor, the target's less by
/// `scale`.
template <typename Real>
Real surprise(Real* logits, std::size_t classes, std::size_t target, Real scale) {
  const Real most = largest(logits, classes);
  const Real of_target = logits[target];
  for (std::size_t i = 0; i < classes; ++i) logits[i] = exponential(logits[i] - most);
  const Real total = sum<Real>(classes, [logits](std::size_t i) { return logits[i]; });
  const Real factor = scale / total;
  for (std::size_t i = 0; i < classes; ++i) logits[i] *= factor;
  logits[target] -= scale;
  return std::log(total) + (most - of_target);
}

}  // namespace

template <typename Real>
void compute(const CrossEntropy& o) {
  const auto* targets = values_of<std::int32_t>(o.targets);
  for (std::size_t row = 0; row < o.rows; ++row) {
    Real* logits = values_of<Real>(o.logits) + row * o.columns;
    values_of<Real>(o.losses)[row] =
        surprise(logits, o.classes, static_cast<std::size_t>(targets[row]),
                 static_cast<Real>(o.gradient_scale));
    std::fill(logits + o.classes, logits + o.columns, Real{0});
  }
}

template void compute<float>(const Embedding&);
template void compute<double>(const Embedding&);
template void compute<float>(const EmbeddingBackward&);
template void compute<double>(const EmbeddingBackward&);
template void compute<float>(const EmbeddingBag&);
template void compute<double>(const EmbeddingBag&);
template void compute<float>(const EmbeddingBagBackward&);
template void compute<double>(const EmbeddingBagBackward&);
template void compute<float>(const CrossEntropy&);
template void compute<double>(const CrossEntropy&);

}  // namespace trainer::cpu
