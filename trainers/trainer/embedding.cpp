#include "trainers/trainer/embedding.hpp"

#include <span>

namespace trainer {

using ddprun::DataType;

void Transfer::carry(const Matrix& matrix, const Place& from, Matrix& result, const Place& to) {
  const auto convert = [&](Compute& compute, const Matrix& input, const Matrix& output) {
    compute.run(
        Convert{.input = input.buffer(), .output = output.buffer(), .elements = matrix.elements()});
  };
  values_.resize(matrix.elements());
  const auto bytes = std::as_writable_bytes(std::span(values_));
  result.reshape(*to.compute, to.type, matrix.rows, matrix.columns);
  if (from.type == DataType::float32) {
    from.compute->copy_out(matrix.buffer(), bytes);
  } else {
    exact_.reshape(*from.compute, DataType::float32, matrix.rows, matrix.columns);
    convert(*from.compute, matrix, exact_);
    from.compute->copy_out(exact_.buffer(), bytes);
  }
  if (to.type == DataType::float32) {
    to.compute->copy_in(bytes, result.buffer());
  } else {
    exact_.reshape(*to.compute, DataType::float32, matrix.rows, matrix.columns);
    to.compute->copy_in(bytes, exact_.buffer());
    convert(*to.compute, exact_, result);
  }
}

EmbeddingLayer::EmbeddingLayer(const Places& places, std::size_t tokens, std::size_t vocabulary,
                               std::size_t channels, std::mt19937& random)
    : places_(places),
      channels_(channels),
      table_(make_uniform_parameter(places.embedding, "table", {vocabulary, channels}, tokens,
                                    random)) {}

void EmbeddingLayer::forward(const Matrix& input, Matrix& output, Mode) {
  const Place& own = places_.embedding;
  Matrix& sums = is_apart() ? sums_ : output;
  sums.reshape(*own.compute, own.type, input.rows, channels_);
  own.compute->run(EmbeddingBag{.tokens = input.buffer(),
                                .table = table_.values.buffer,
                                .output = sums.buffer(),
                                .rows = input.rows,
                                .bag = input.columns,
                                .channels = channels_});
  if (is_apart()) transfer_.carry(sums, own, output, places_.rest);
}

void EmbeddingLayer::backward(const BackwardPass& pass, const GradientReady& ready) {
  const Place& own = places_.embedding;
  if (is_apart()) transfer_.carry(pass.output_gradient, places_.rest, gradient_, own);
  const Matrix& gradient = is_apart() ? gradient_ : pass.output_gradient;
  own.compute->run(EmbeddingBagBackward{.tokens = pass.input.buffer(),
                                        .output_gradient = gradient.buffer(),
                                        .table_gradient = table_.gradient,
                                        .rows = pass.input.rows,
                                        .bag = pass.input.columns,
                                        .channels = channels_});
  ready(table_);
}

}  // namespace trainer
