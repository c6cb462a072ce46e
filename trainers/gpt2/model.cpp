#include "trainers/gpt2/model.hpp"

#include <ddprun/error.hpp>

#include <span>
#include <string>

namespace trainer::gpt2 {

using ddprun::DataType;

Batch make_batch(Compute& compute, std::size_t sequences, std::size_t context) {
  return {compute.allocate(sequences * context, DataType::int32),
          compute.allocate(sequences * context, DataType::int32)};
}

Batch part_of(const Batch& batch, std::size_t first, std::size_t count, std::size_t context) {
  const auto slice = [&](const Array& all) {
    return Array{all.buffer.slice(first * context, count * context), all.hold};
  };
  return {slice(batch.inputs), slice(batch.targets)};
}

Model::Model(Compute& compute, const Shape& shape, std::size_t sequences_max, DataType type)
    : compute_(compute), shape_(shape), sequences_max_(sequences_max) {
  check(shape);
  if (!compute.supports(type)) {
    throw ddprun::Error(ddprun::Errc::usage,
                        compute.name() + " does not compute in " + to_string(type));
  }
  for (ParameterSpec& spec : parameters_of(shape)) {
    const std::size_t elements = spec.elements();
    parameters_.push_back({std::move(spec), compute.allocate(elements, type), {}});
  }
  activations_ = make_activations(compute, shape, sequences_max, type);
}

void Model::initialise(std::uint64_t seed) {
  for (std::size_t index = 0; index < parameters_.size(); ++index) {
    const std::vector<float> values = first_values(shape_, index, seed);
    const Array exact = compute_.allocate(values.size(), DataType::float32);
    compute_.copy_in(std::as_bytes(std::span(values)), exact.buffer);
    compute_.run(
        Convert{.input = exact.buffer, .output = weight(index), .elements = values.size()});
    compute_.wait();  // before `exact` is freed
  }
}

/// A linear layer: output = input * transposed(weight) + bias.
struct Model::LinearRun {
  std::size_t weight_index;  ///< the bias is the next parameter
  const Buffer& input;       ///< [rows, inputs]
  const Buffer& output;      ///< [rows, outputs]; in the backward pass its gradient
  std::size_t inputs;
  std::size_t outputs;
};

void Model::apply(const LinearRun& linear) {
  compute_.run(MatrixProduct{.left = linear.input,
                             .right = weight(linear.weight_index),
                             .bias = weight(linear.weight_index + 1),
                             .result = linear.output,
                             .rows = sequences_ * shape_.context,
                             .columns = linear.outputs,
                             .inner = linear.inputs,
                             .right_is_transposed = true});
}

void Model::apply_backward(const LinearRun& linear, const Buffer& input_gradient,
                           const GradientReady& ready) {
  const std::size_t rows = sequences_ * shape_.context;
  compute_.run(SumOfRows{.values = linear.output,
                         .result = gradient(linear.weight_index + 1),
                         .rows = rows,
                         .columns = linear.outputs});
  ready(linear.weight_index + 1);
  compute_.run(MatrixProduct{.left = linear.output,
                             .right = linear.input,
                             .result = gradient(linear.weight_index),
                             .rows = linear.outputs,
                             .columns = linear.inputs,
                             .inner = rows,
                             .left_is_transposed = true,
                             .adds = true});
  ready(linear.weight_index);
  compute_.run(MatrixProduct{.left = linear.output,
                             .right = weight(linear.weight_index),
                             .result = input_gradient,
                             .rows = rows,
                             .columns = linear.inputs,
                             .inner = linear.outputs});
}

void Model::normalise(const Buffer& input, const Buffer* addend, const Buffer& sum,
                      std::size_t weight_index, const Normalised& to) {
  compute_.run(LayerNorm{.input = input,
                         .addend = addend == nullptr ? Buffer{} : *addend,
                         .sum = sum,
                         .weight = weight(weight_index),
                         .bias = weight(weight_index + 1),
                         .output = to.output.buffer,
                         .mean = to.mean.buffer,
                         .inverse_deviation = to.inverse_deviation.buffer,
                         .rows = sequences_ * shape_.context,
                         .channels = shape_.channels});
}

void Model::normalise_backward(const Buffer& input, std::size_t weight_index,
                               const Normalised& from, const GradientReady& ready) {
  compute_.run(LayerNormBackward{.input = input,
                                 .weight = weight(weight_index),
                                 .mean = from.mean.buffer,
                                 .inverse_deviation = from.inverse_deviation.buffer,
                                 .output_gradient = activations_.normalised_gradient.buffer,
                                 .input_gradient = activations_.residual_gradient.buffer,
                                 .weight_gradient = gradient(weight_index),
                                 .bias_gradient = gradient(weight_index + 1),
                                 .rows = sequences_ * shape_.context,
                                 .channels = shape_.channels});
  ready(weight_index + 1);
  ready(weight_index);
}

void Model::forward(const Batch& batch, const Buffer& total, double gradient_scale) {
  const std::size_t tokens = batch.inputs.buffer.elements;
  const std::size_t targets = batch.targets.buffer.elements;
  sequences_ = tokens / shape_.context;
  if (tokens != targets || tokens != sequences_ * shape_.context || sequences_ > sequences_max_) {
    throw ddprun::Error(ddprun::Errc::usage,
                        std::to_string(tokens) + " tokens and " + std::to_string(targets) +
                            " targets are not up to " + std::to_string(sequences_max_) +
                            " whole sequences");
  }
  if (sequences_ == 0) return;
  if (gradient_scale > 0) batch_ = batch;
  compute_.run(Embedding{.tokens = batch.inputs.buffer,
                         .token_table = weight(kTokenTable),
                         .position_table = weight(kPositionTable),
                         .output = activations_.layers[0].residual.buffer,
                         .rows = tokens,
                         .context = shape_.context,
                         .channels = shape_.channels});
  for (std::size_t layer = 0; layer < shape_.layers; ++layer) forward_layer(layer);
  normalise(activations_.layers.back().middle.buffer, &activations_.branch.buffer,
            activations_.residual.buffer, final_norm_weight(shape_), activations_.final_norm);
  compute_loss(batch.targets.buffer, total, gradient_scale);
}

void Model::forward_layer(std::size_t layer) {
  const LayerActivations& own = activations_.layers[layer];
  const std::size_t c = shape_.channels;
  const auto index = [layer](LayerParameter which) { return index_of(layer, which); };
  const Buffer& branch = activations_.branch.buffer;
  if (layer == 0) {
    normalise(own.residual.buffer, nullptr, {}, index(LayerParameter::norm1_weight), own.norm1);
  } else {
    // Adds the previous layer's pending branch.
    normalise(activations_.layers[layer - 1].middle.buffer, &branch, own.residual.buffer,
              index(LayerParameter::norm1_weight), own.norm1);
  }
  apply({index(LayerParameter::projections_weight), own.norm1.output.buffer, own.projections.buffer,
         c, 3 * c});
  compute_.run(Attention{.projections = own.projections.buffer,
                         .output = own.attended.buffer,
                         .log_sum = own.log_sum.buffer,
                         .sequences = sequences_,
                         .context = shape_.context,
                         .heads = shape_.heads,
                         .head_size = shape_.head_size()});
  apply({index(LayerParameter::attended_weight), own.attended.buffer, branch, c, c});
  normalise(own.residual.buffer, &branch, own.middle.buffer, index(LayerParameter::norm2_weight),
            own.norm2);
  apply(
      {index(LayerParameter::hidden_weight), own.norm2.output.buffer, own.hidden.buffer, c, 4 * c});
  compute_.run(Gelu{.input = own.hidden.buffer,
                    .output = own.activated.buffer,
                    .elements = sequences_ * shape_.context * 4 * c});
  apply({index(LayerParameter::contraction_weight), own.activated.buffer, branch, 4 * c, c});
}

void Model::compute_loss(const Buffer& targets, const Buffer& total, double gradient_scale) {
  const std::size_t rows = sequences_ * shape_.context;
  compute_.run(MatrixProduct{.left = activations_.final_norm.output.buffer,
                             .right = weight(kTokenTable),
                             .result = activations_.logits.buffer,
                             .rows = rows,
                             .columns = shape_.padded_vocabulary(),
                             .inner = shape_.channels,
                             .right_is_transposed = true});
  compute_.run(CrossEntropy{.logits = activations_.logits.buffer,
                            .targets = targets,
                            .losses = activations_.losses.buffer,
                            .rows = rows,
                            .columns = shape_.padded_vocabulary(),
                            .classes = shape_.vocabulary,
                            .gradient_scale = gradient_scale});
  compute_.run(AddSum{.values = activations_.losses.buffer, .total = total, .elements = rows});
}

void Model::backward(const GradientReady& ready) {
  if (sequences_ == 0) {
    for (std::size_t index = parameters_.size(); index-- > 0;) ready(index);
    return;
  }
  const std::size_t rows = sequences_ * shape_.context;
  compute_.run(MatrixProduct{.left = activations_.logits.buffer,
                             .right = weight(kTokenTable),
                             .result = activations_.normalised_gradient.buffer,
                             .rows = rows,
                             .columns = shape_.channels,
                             .inner = shape_.padded_vocabulary()});
  compute_.run(MatrixProduct{.left = activations_.logits.buffer,
                             .right = activations_.final_norm.output.buffer,
                             .result = gradient(kTokenTable),
                             .rows = shape_.padded_vocabulary(),
                             .columns = shape_.channels,
                             .inner = rows,
                             .left_is_transposed = true,
                             .adds = true});
  compute_.zero(activations_.residual_gradient.buffer);
  normalise_backward(activations_.residual.buffer, final_norm_weight(shape_),
                     activations_.final_norm, ready);
  for (std::size_t layer = shape_.layers; layer-- > 0;) backward_layer(layer, ready);
  compute_.run(EmbeddingBackward{.tokens = batch_.inputs.buffer,
                                 .output_gradient = activations_.residual_gradient.buffer,
                                 .token_gradient = gradient(kTokenTable),
                                 .position_gradient = gradient(kPositionTable),
                                 .rows = rows,
                                 .context = shape_.context,
                                 .channels = shape_.channels});
  ready(kPositionTable);
  ready(kTokenTable);
}

/// On entry, the residual path's gradient is that of the layer's output, on return that of its
/// input; the normalisations add the gradients of the two branches to it.
void Model::backward_layer(std::size_t layer, const GradientReady& ready) {
  const LayerActivations& own = activations_.layers[layer];
  const std::size_t c = shape_.channels;
  const auto index = [layer](LayerParameter which) { return index_of(layer, which); };
  const Buffer& residual = activations_.residual_gradient.buffer;
  const Buffer& normalised = activations_.normalised_gradient.buffer;
  const Buffer& wide = activations_.wide_gradient.buffer;
  apply_backward(
      {index(LayerParameter::contraction_weight), own.activated.buffer, residual, 4 * c, c}, wide,
      ready);
  compute_.run(GeluBackward{.input = own.hidden.buffer,
                            .output_gradient = wide,
                            .input_gradient = wide,
                            .elements = sequences_ * shape_.context * 4 * c});
  apply_backward({index(LayerParameter::hidden_weight), own.norm2.output.buffer, wide, c, 4 * c},
                 normalised, ready);
  normalise_backward(own.middle.buffer, index(LayerParameter::norm2_weight), own.norm2, ready);
  apply_backward({index(LayerParameter::attended_weight), own.attended.buffer, residual, c, c},
                 normalised, ready);
  compute_.run(AttentionBackward{.projections = own.projections.buffer,
                                 .output = own.attended.buffer,
                                 .log_sum = own.log_sum.buffer,
                                 .output_gradient = normalised,
                                 .projections_gradient = wide,
                                 .sequences = sequences_,
                                 .context = shape_.context,
                                 .heads = shape_.heads,
                                 .head_size = shape_.head_size()});
  apply_backward(
      {index(LayerParameter::projections_weight), own.norm1.output.buffer, wide, c, 3 * c},
      normalised, ready);
  normalise_backward(own.residual.buffer, index(LayerParameter::norm1_weight), own.norm1, ready);
}

}  // namespace trainer::gpt2
