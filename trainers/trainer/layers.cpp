#include "trainers/trainer/layers.hpp"

#include <cblas.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

namespace trainer {

namespace {

/// Uniform within [-bound, bound). Made by hand because the distributions of the standard library
/// differ between implementations, and equal seeds should mean equal models everywhere.
float uniform(std::mt19937& random, float bound) {
  const float unit = static_cast<float>(random() >> 8) * 0x1p-24F;
  return bound * (2 * unit - 1);
}

Parameter make_uniform_parameter(const std::string& name, const std::vector<std::size_t>& shape,
                                 float bound, std::mt19937& random) {
  const auto count =
      std::accumulate(shape.begin(), shape.end(), std::size_t{1}, std::multiplies<>());
  Parameter parameter{.name = name,
                      .index = 0,
                      .shape = shape,
                      .values = std::vector<float>(count),
                      .gradient = {}};
  for (float& value : parameter.values) value = uniform(random, bound);
  return parameter;
}

/// sums[c] += the sum of column c.
void add_column_sums(const Matrix& matrix, std::span<float> sums) {
  for (std::size_t row = 0; row < matrix.rows; ++row) {
    const float* values = matrix.row(row);
    for (std::size_t column = 0; column < matrix.columns; ++column) sums[column] += values[column];
  }
}

}  // namespace

Linear::Linear(std::size_t inputs, std::size_t outputs, std::mt19937& random)
    : inputs_(inputs), outputs_(outputs) {
  const float bound = 1 / std::sqrt(static_cast<float>(inputs));
  weight_ = make_uniform_parameter("weight", {outputs, inputs}, bound, random);
  bias_ = make_uniform_parameter("bias", {outputs}, bound, random);
}

void Linear::forward(const Matrix& input, Matrix& output, Mode) {
  output.reshape(input.rows, outputs_);
  if (input.rows == 0) return;
  for (std::size_t row = 0; row < input.rows; ++row) {
    std::copy(bias_.values.begin(), bias_.values.end(), output.row(row));
  }
  const auto rows = static_cast<blasint>(input.rows);
  const auto outputs = static_cast<blasint>(outputs_);
  const auto inputs = static_cast<blasint>(inputs_);
  cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, rows, outputs, inputs, 1,
              input.values.data(), inputs, weight_.values.data(), inputs, 1, output.values.data(),
              outputs);
}

void Linear::backward(const BackwardPass& pass, const GradientReady& ready) {
  const auto rows = static_cast<blasint>(pass.output_gradient.rows);
  const auto outputs = static_cast<blasint>(outputs_);
  const auto inputs = static_cast<blasint>(inputs_);
  const float* output_gradient = pass.output_gradient.values.data();

  // The gradients that travel come first, so that they travel while input_gradient is computed.
  add_column_sums(pass.output_gradient, bias_.gradient);
  ready(bias_);
  if (rows > 0) {
    cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, outputs, inputs, rows, 1, output_gradient,
                outputs, pass.input.values.data(), inputs, 1, weight_.gradient.data(), inputs);
  }
  ready(weight_);
  if (pass.input_gradient == nullptr) return;

  pass.input_gradient->reshape(pass.output_gradient.rows, inputs_);
  if (rows > 0) {
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, rows, inputs, outputs, 1,
                output_gradient, outputs, weight_.values.data(), inputs, 0,
                pass.input_gradient->values.data(), inputs);
  }
}

void Relu::forward(const Matrix& input, Matrix& output, Mode) {
  output.reshape(input.rows, input.columns);
  for (std::size_t i = 0; i < input.values.size(); ++i) {
    output.values[i] = std::max(input.values[i], 0.0F);
  }
}

void Relu::backward(const BackwardPass& pass, const GradientReady&) {
  if (pass.input_gradient == nullptr) return;
  pass.input_gradient->reshape(pass.output.rows, pass.output.columns);
  for (std::size_t i = 0; i < pass.output.values.size(); ++i) {
    pass.input_gradient->values[i] =
        pass.output.values[i] > 0 ? pass.output_gradient.values[i] : 0.0F;
  }
}

void Sigmoid::forward(const Matrix& input, Matrix& output, Mode) {
  output.reshape(input.rows, input.columns);
  for (std::size_t i = 0; i < input.values.size(); ++i) {
    output.values[i] = 1 / (1 + std::exp(-input.values[i]));
  }
}

void Sigmoid::backward(const BackwardPass& pass, const GradientReady&) {
  if (pass.input_gradient == nullptr) return;
  pass.input_gradient->reshape(pass.output.rows, pass.output.columns);
  for (std::size_t i = 0; i < pass.output.values.size(); ++i) {
    const float value = pass.output.values[i];
    pass.input_gradient->values[i] = pass.output_gradient.values[i] * value * (1 - value);
  }
}

void LogSoftmax::forward(const Matrix& input, Matrix& output, Mode) {
  output.reshape(input.rows, input.columns);
  for (std::size_t row = 0; row < input.rows; ++row) {
    const float* from = input.row(row);
    float* to = output.row(row);
    // Subtracting the largest keeps exp() from overflowing; it cancels out.
    const float largest = *std::max_element(from, from + input.columns);
    float sum = 0;
    for (std::size_t column = 0; column < input.columns; ++column) {
      sum += std::exp(from[column] - largest);
    }
    const float log_sum = std::log(sum);
    for (std::size_t column = 0; column < input.columns; ++column) {
      to[column] = from[column] - largest - log_sum;
    }
  }
}

void LogSoftmax::backward(const BackwardPass& pass, const GradientReady&) {
  if (pass.input_gradient == nullptr) return;
  pass.input_gradient->reshape(pass.output.rows, pass.output.columns);
  for (std::size_t row = 0; row < pass.output.rows; ++row) {
    const float* output = pass.output.row(row);
    const float* from = pass.output_gradient.row(row);
    float* to = pass.input_gradient->row(row);
    float sum = 0;
    for (std::size_t column = 0; column < pass.output.columns; ++column) sum += from[column];
    for (std::size_t column = 0; column < pass.output.columns; ++column) {
      to[column] = from[column] - std::exp(output[column]) * sum;
    }
  }
}

}  // namespace trainer
