#include "trainers/trainer/layers.hpp"

namespace trainer {

LinearLayer::LinearLayer(const Place& place, std::size_t inputs, std::size_t outputs,
                         std::mt19937& random)
    : place_(place),
      inputs_(inputs),
      outputs_(outputs),
      weight_(make_uniform_parameter(place, "weight", {outputs, inputs}, inputs, random)),
      bias_(make_uniform_parameter(place, "bias", {outputs}, inputs, random)) {}

void LinearLayer::forward(const Matrix& input, Matrix& output, Mode) {
  output.reshape(*place_.compute, place_.type, input.rows, outputs_);
  place_.compute->run(MatrixProduct{.left = input.buffer(),
                                    .right = weight_.values.buffer,
                                    .bias = bias_.values.buffer,
                                    .result = output.buffer(),
                                    .rows = input.rows,
                                    .columns = outputs_,
                                    .inner = inputs_,
                                    .right_is_transposed = true});
}

void LinearLayer::backward(const BackwardPass& pass, const GradientReady& ready) {
  const std::size_t rows = pass.output_gradient.rows;
  // First the parameters' gradients, so that their all-reduce overlaps with input_gradient.
  place_.compute->run(SumOfRows{.values = pass.output_gradient.buffer(),
                                .result = bias_.gradient,
                                .rows = rows,
                                .columns = outputs_});
  ready(bias_);
  place_.compute->run(MatrixProduct{.left = pass.output_gradient.buffer(),
                                    .right = pass.input.buffer(),
                                    .result = weight_.gradient,
                                    .rows = outputs_,
                                    .columns = inputs_,
                                    .inner = rows,
                                    .left_is_transposed = true,
                                    .adds = true});
  ready(weight_);
  if (pass.input_gradient == nullptr) return;

  pass.input_gradient->reshape(*place_.compute, place_.type, rows, inputs_);
  place_.compute->run(MatrixProduct{.left = pass.output_gradient.buffer(),
                                    .right = weight_.values.buffer,
                                    .result = pass.input_gradient->buffer(),
                                    .rows = rows,
                                    .columns = inputs_,
                                    .inner = outputs_});
}

void ActivationLayer::forward(const Matrix& input, Matrix& output, Mode) {
  output.reshape(*place_.compute, place_.type, input.rows, input.columns);
  place_.compute->run(Activation{.function = function_,
                                 .input = input.buffer(),
                                 .output = output.buffer(),
                                 .elements = input.elements()});
}

void ActivationLayer::backward(const BackwardPass& pass, const GradientReady&) {
  if (pass.input_gradient == nullptr) return;
  pass.input_gradient->reshape(*place_.compute, place_.type, pass.output.rows, pass.output.columns);
  place_.compute->run(ActivationBackward{.function = function_,
                                         .output = pass.output.buffer(),
                                         .output_gradient = pass.output_gradient.buffer(),
                                         .input_gradient = pass.input_gradient->buffer(),
                                         .elements = pass.output.elements()});
}

BatchNormLayer::BatchNormLayer(const Place& place, std::size_t columns)
    : place_(place),
      columns_(columns),
      scale_(make_parameter(place, "scale", {columns}, std::vector<float>(columns, 1))),
      shift_(make_parameter(place, "shift", {columns}, std::vector<float>(columns, 0))),
      running_mean_(make_state(place, columns, 0)),
      running_variance_(make_state(place, columns, 1)),
      mean_(make_state(place, columns, 0)),
      inverse_deviation_(make_state(place, columns, 0)) {}

void BatchNormLayer::forward(const Matrix& input, Matrix& output, Mode mode) {
  output.reshape(*place_.compute, place_.type, input.rows, columns_);
  place_.compute->run(BatchNorm{.input = input.buffer(),
                                .scale = scale_.values.buffer,
                                .shift = shift_.values.buffer,
                                .output = output.buffer(),
                                .mean = mean_.values.buffer,
                                .inverse_deviation = inverse_deviation_.values.buffer,
                                .running_mean = running_mean_.values.buffer,
                                .running_variance = running_variance_.values.buffer,
                                .rows = input.rows,
                                .columns = columns_,
                                .trains = mode == Mode::train});
}

void BatchNormLayer::backward(const BackwardPass& pass, const GradientReady& ready) {
  // The operation always computes it.
  Matrix unneeded;
  Matrix& input_gradient = pass.input_gradient == nullptr ? unneeded : *pass.input_gradient;
  input_gradient.reshape(*place_.compute, place_.type, pass.input.rows, columns_);
  place_.compute->run(BatchNormBackward{.input = pass.input.buffer(),
                                        .scale = scale_.values.buffer,
                                        .mean = mean_.values.buffer,
                                        .inverse_deviation = inverse_deviation_.values.buffer,
                                        .output_gradient = pass.output_gradient.buffer(),
                                        .input_gradient = input_gradient.buffer(),
                                        .scale_gradient = scale_.gradient,
                                        .shift_gradient = shift_.gradient,
                                        .rows = pass.input.rows,
                                        .columns = columns_});
  ready(shift_);
  ready(scale_);
}

}  // namespace trainer
