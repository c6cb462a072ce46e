// Attention in blocks of queries: one matrix product computes the scores of a block against all
// keys up to its end. Only the scores of one block are stored; the backward pass recomputes them,
// and the weights from each row's log_sum (Dao et al., 2022).
#include "trainers/compute/cpu_blas.hpp"
#include "trainers/compute/cpu_kernels.hpp"
#include "trainers/compute/cpu_math.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

namespace trainer::cpu {

namespace {

/// Queries per block: enough for fast matrix products, and few enough that the unused upper half of
/// the diagonal block does not matter.
constexpr std::size_t kQueries = 64;

/// Arrays of one head of one sequence. Queries, keys and values of consecutive tokens are `stride`
/// elements apart, outputs `output_stride`.
template <typename Real>
struct Head {
  const Real* queries;
  const Real* keys;
  const Real* values;
  std::size_t stride;
  std::size_t output_stride;
  std::size_t context;
  std::size_t size;
  Real scale;
};

template <typename Real, typename Operation>
Head<Real> head_of(const Operation& o, std::size_t sequence, std::size_t head) {
  const std::size_t channels = o.heads * o.head_size;
  const Real* first =
      values_of<Real>(o.projections) + sequence * o.context * 3 * channels + head * o.head_size;
  return {first,
          first + channels,
          first + 2 * channels,
          3 * channels,
          channels,
          o.context,
          o.head_size,
          1 / std::sqrt(static_cast<Real>(o.head_size))};
}

/// Returns the start of a head's part of an array like `output`.
template <typename Operation>
std::size_t output_begin(const Operation& o, std::size_t sequence, std::size_t head) {
  return (sequence * o.context * o.heads + head) * o.head_size;
}

/// Queries `first` to `first` + `count` with all keys up to their own.
struct Block {
  std::size_t first;
  std::size_t count;
  std::size_t keys() const { return first + count; }
};

/// scores [count, keys] = queries * transposed(keys) * scale.
template <typename Real>
void score(const Head<Real>& head, Block block, Real* scores) {
  multiply(block.count, block.keys(), head.size, head.scale,
           {head.queries + block.first * head.stride, head.stride}, {head.keys, head.stride, true},
           Real{0}, scores, block.keys());
}

template <typename Real>
void attend(const Head<Real>& head, Real* output, Real* log_sums, std::vector<Real>& scores) {
  for (std::size_t first = 0; first < head.context; first += kQueries) {
    const Block block = {first, std::min(kQueries, head.context - first)};
    score(head, block, scores.data());
    for (std::size_t i = 0; i < block.count; ++i) {
      Real* row = scores.data() + i * block.keys();
      const std::size_t seen = first + i + 1;
      const Real most = largest(row, seen);
      for (std::size_t k = 0; k < seen; ++k) row[k] = exponential(row[k] - most);
      const Real total = sum<Real>(seen, [row](std::size_t k) { return row[k]; });
      const Real factor = 1 / total;
      for (std::size_t k = 0; k < seen; ++k) row[k] *= factor;
      std::fill(row + seen, row + block.keys(), Real{0});
      log_sums[first + i] = most + std::log(total);
    }
    multiply(block.count, head.size, block.keys(), Real{1}, {scores.data(), block.keys()},
             {head.values, head.stride}, Real{0}, output + first * head.output_stride,
             head.output_stride);
  }
}

/// Further arrays of a head's backward pass, read and accumulated.
template <typename Real>
struct HeadGradients {
  const Real* output;
  const Real* log_sums;
  const Real* output_gradient;
  Real* queries;
  Real* keys;
  Real* values;
};

/// Recomputes weights = softmax(scores); replaces slopes, the gradient of the weights, by the
/// gradient of the scaled scores.
template <typename Real>
void differentiate_softmax(const Head<Real>& head, const HeadGradients<Real>& gradients,
                           Block block, Real* weights, Real* slopes) {
  for (std::size_t i = 0; i < block.count; ++i) {
    Real* row = weights + i * block.keys();
    Real* slope = slopes + i * block.keys();
    const std::size_t query = block.first + i;
    const std::size_t seen = query + 1;
    const Real log_sum = gradients.log_sums[query];
    const Real* output = gradients.output + query * head.output_stride;
    const Real* output_gradient = gradients.output_gradient + query * head.output_stride;
    const Real mean =
        sum<Real>(head.size, [=](std::size_t k) { return output[k] * output_gradient[k]; });
    for (std::size_t k = 0; k < seen; ++k) row[k] = exponential(row[k] - log_sum);
    for (std::size_t k = 0; k < seen; ++k) slope[k] = row[k] * (slope[k] - mean);
    std::fill(row + seen, row + block.keys(), Real{0});
    std::fill(slope + seen, slope + block.keys(), Real{0});
  }
}

template <typename Real>
void attend_backward(const Head<Real>& head, const HeadGradients<Real>& gradients,
                     std::vector<Real>& weights, std::vector<Real>& slopes) {
  for (std::size_t first = 0; first < head.context; first += kQueries) {
    const Block block = {first, std::min(kQueries, head.context - first)};
    const Factor<Real> output_gradient = {gradients.output_gradient + first * head.output_stride,
                                          head.output_stride};
    score(head, block, weights.data());
    multiply(block.count, block.keys(), head.size, Real{1}, output_gradient,
             {head.values, head.stride, true}, Real{0}, slopes.data(), block.keys());
    differentiate_softmax(head, gradients, block, weights.data(), slopes.data());
    multiply(block.count, head.size, block.keys(), head.scale, {slopes.data(), block.keys()},
             {head.keys, head.stride}, Real{0}, gradients.queries + first * head.stride,
             head.stride);
    multiply(block.keys(), head.size, block.count, head.scale, {slopes.data(), block.keys(), true},
             {head.queries + first * head.stride, head.stride}, Real{1}, gradients.keys,
             head.stride);
    multiply(block.keys(), head.size, block.count, Real{1}, {weights.data(), block.keys(), true},
             output_gradient, Real{1}, gradients.values, head.stride);
  }
}

std::size_t scores_of_block(std::size_t context) {
  return std::min(kQueries, context) * context;
}

}  // namespace

template <typename Real>
void compute(const Attention& o) {
  std::vector<Real> scores(scores_of_block(o.context));
  for (std::size_t sequence = 0; sequence < o.sequences; ++sequence) {
    for (std::size_t head = 0; head < o.heads; ++head) {
      attend(head_of<Real>(o, sequence, head),
             values_of<Real>(o.output) + output_begin(o, sequence, head),
             values_of<Real>(o.log_sum) + (sequence * o.heads + head) * o.context, scores);
    }
  }
}

template <typename Real>
void compute(const AttentionBackward& o) {
  std::vector<Real> weights(scores_of_block(o.context));
  std::vector<Real> slopes(weights.size());
  const std::size_t channels = o.heads * o.head_size;
  Real* gradient = values_of<Real>(o.projections_gradient);
  std::fill_n(gradient, o.sequences * o.context * 3 * channels, Real{0});
  for (std::size_t sequence = 0; sequence < o.sequences; ++sequence) {
    for (std::size_t head = 0; head < o.heads; ++head) {
      const std::size_t begin = output_begin(o, sequence, head);
      Real* first = gradient + sequence * o.context * 3 * channels + head * o.head_size;
      attend_backward(head_of<Real>(o, sequence, head),
                      {values_of<Real>(o.output) + begin,
                       values_of<Real>(o.log_sum) + (sequence * o.heads + head) * o.context,
                       values_of<Real>(o.output_gradient) + begin, first, first + channels,
                       first + 2 * channels},
                      weights, slopes);
    }
  }
}

template void compute<float>(const Attention&);
template void compute<double>(const Attention&);
template void compute<float>(const AttentionBackward&);
template void compute<double>(const AttentionBackward&);

}  // namespace trainer::cpu
