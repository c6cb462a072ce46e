#include "tests/support/compute_cases.hpp"

#include <utility>

namespace ddprun::test {

namespace {

using namespace trainer;

using Inputs = std::vector<Doubles>;

Array added_to(Compute& compute, std::size_t size, DataType type) {
  return on_device(compute, Doubles(size, kBefore), type);
}

std::vector<Array> all_on_device(Compute& compute, const Inputs& inputs, DataType type) {
  std::vector<Array> arrays;
  for (const Doubles& input : inputs) arrays.push_back(on_device(compute, input, type));
  return arrays;
}

/// result = left * right + bias.
struct MatrixProductRun {
  static constexpr std::size_t kRows = 5;
  static constexpr std::size_t kColumns = 3;
  static constexpr std::size_t kInner = 4;

  bool left_is_transposed;
  bool right_is_transposed;

  Doubles forward(Compute& compute, DataType type, const Inputs& inputs) const {
    const auto arrays = all_on_device(compute, inputs, type);
    const Array result = compute.allocate(kRows * kColumns, type);
    compute.run(MatrixProduct{.left = arrays[0].buffer,
                              .right = arrays[1].buffer,
                              .bias = arrays[2].buffer,
                              .result = result.buffer,
                              .rows = kRows,
                              .columns = kColumns,
                              .inner = kInner,
                              .left_is_transposed = left_is_transposed,
                              .right_is_transposed = right_is_transposed});
    return from_device(compute, result.buffer);
  }

  /// gradient * transposed(right); the transpose of that if `left` is transposed.
  MatrixProduct by_left(const Buffer& gradient, const Buffer& right, const Buffer& result) const {
    MatrixProduct product = {.left = gradient,
                             .right = right,
                             .result = result,
                             .rows = kRows,
                             .columns = kInner,
                             .inner = kColumns,
                             .right_is_transposed = !right_is_transposed,
                             .adds = true};
    if (left_is_transposed) {
      std::swap(product.left, product.right);
      std::swap(product.rows, product.columns);
      product.left_is_transposed = right_is_transposed;
      product.right_is_transposed = true;
    }
    return product;
  }

  /// transposed(left) * gradient; the transpose of that if `right` is transposed.
  MatrixProduct by_right(const Buffer& left, const Buffer& gradient, const Buffer& result) const {
    MatrixProduct product = {.left = left,
                             .right = gradient,
                             .result = result,
                             .rows = kInner,
                             .columns = kColumns,
                             .inner = kRows,
                             .left_is_transposed = !left_is_transposed,
                             .adds = true};
    if (right_is_transposed) {
      std::swap(product.left, product.right);
      std::swap(product.rows, product.columns);
      product.left_is_transposed = true;
      product.right_is_transposed = left_is_transposed;
    }
    return product;
  }

  Inputs backward(Compute& compute, DataType type, const Inputs& inputs,
                  const Doubles& output_gradient) const {
    const auto arrays = all_on_device(compute, inputs, type);
    const Array gradient = on_device(compute, output_gradient, type);
    const Array left = added_to(compute, kRows * kInner, type);
    const Array right = added_to(compute, kInner * kColumns, type);
    const Array bias = added_to(compute, kColumns, type);
    compute.run(by_left(gradient.buffer, arrays[1].buffer, left.buffer));
    compute.run(by_right(arrays[0].buffer, gradient.buffer, right.buffer));
    compute.run(SumOfRows{
        .values = gradient.buffer, .result = bias.buffer, .rows = kRows, .columns = kColumns});
    return {added(compute, left), added(compute, right), added(compute, bias)};
  }
};

ComputeCase matrix_product(bool left_is_transposed, bool right_is_transposed) {
  using Run = MatrixProductRun;
  const Run run = {left_is_transposed, right_is_transposed};
  return {
      std::string("matrix product") + (left_is_transposed ? ", left transposed" : "") +
          (right_is_transposed ? ", right transposed" : ""),
      {Run::kRows * Run::kInner, Run::kInner * Run::kColumns, Run::kColumns},
      [run](Compute& compute, DataType type, const Inputs& inputs) {
        return run.forward(compute, type, inputs);
      },
      [run](Compute& compute, DataType type, const Inputs& inputs, const Doubles& output_gradient) {
        return run.backward(compute, type, inputs, output_gradient);
      }};
}

ComputeCase embedding() {
  constexpr std::size_t kContext = 3;
  constexpr std::size_t kChannels = 4;
  constexpr std::size_t kVocabulary = 5;
  const std::vector<std::int32_t> tokens = {4, 0, 4, 1, 4, 3};  // some three times, some never
  ComputeCase one;
  one.name = "embedding";
  one.input_sizes = {kVocabulary * kChannels, kContext * kChannels};
  one.forward = [=](Compute& compute, DataType type, const Inputs& inputs) {
    const auto arrays = all_on_device(compute, inputs, type);
    const Array output = compute.allocate(tokens.size() * kChannels, type);
    const Array which = on_device(compute, tokens);
    compute.run(Embedding{.tokens = which.buffer,
                          .token_table = arrays[0].buffer,
                          .position_table = arrays[1].buffer,
                          .output = output.buffer,
                          .rows = tokens.size(),
                          .context = kContext,
                          .channels = kChannels});
    return from_device(compute, output.buffer);
  };
  one.backward = [=](Compute& compute, DataType type, const Inputs&,
                     const Doubles& output_gradient) -> Inputs {
    const Array gradient = on_device(compute, output_gradient, type);
    const Array which = on_device(compute, tokens);
    const Array meaning = added_to(compute, kVocabulary * kChannels, type);
    const Array position = added_to(compute, kContext * kChannels, type);
    compute.run(EmbeddingBackward{.tokens = which.buffer,
                                  .output_gradient = gradient.buffer,
                                  .token_gradient = meaning.buffer,
                                  .position_gradient = position.buffer,
                                  .rows = tokens.size(),
                                  .context = kContext,
                                  .channels = kChannels});
    return {added(compute, meaning), added(compute, position)};
  };
  return one;
}

/// Arrays of a layer normalisation: input, addend, weight, bias.
struct LayerNormRun {
  static constexpr std::size_t kRows = 3;
  static constexpr std::size_t kChannels = 37;  // not a multiple of any vector's length

  LayerNormRun(Compute& compute, DataType type, const Inputs& inputs)
      : arrays(all_on_device(compute, inputs, type)),
        sum(compute.allocate(kRows * kChannels, type)),
        output(compute.allocate(kRows * kChannels, type)),
        mean(compute.allocate(kRows, statistics(type))),
        inverse_deviation(compute.allocate(kRows, statistics(type))) {
    compute.run(LayerNorm{.input = arrays[0].buffer,
                          .addend = arrays[1].buffer,
                          .sum = sum.buffer,
                          .weight = arrays[2].buffer,
                          .bias = arrays[3].buffer,
                          .output = output.buffer,
                          .mean = mean.buffer,
                          .inverse_deviation = inverse_deviation.buffer,
                          .rows = kRows,
                          .channels = kChannels});
  }

  std::vector<Array> arrays;
  Array sum;
  Array output;
  Array mean;
  Array inverse_deviation;
};

ComputeCase layer_norm() {
  constexpr std::size_t kRows = LayerNormRun::kRows;
  constexpr std::size_t kChannels = LayerNormRun::kChannels;
  ComputeCase one;
  one.name = "layer norm of a sum";
  one.input_sizes = {kRows * kChannels, kRows * kChannels, kChannels, kChannels};
  one.forward = [](Compute& compute, DataType type, const Inputs& inputs) {
    const LayerNormRun run(compute, type, inputs);
    return from_device(compute, run.output.buffer);
  };
  one.backward = [](Compute& compute, DataType type, const Inputs& inputs,
                    const Doubles& output_gradient) -> Inputs {
    const LayerNormRun run(compute, type, inputs);
    const Array gradient = on_device(compute, output_gradient, type);
    const Array input = added_to(compute, kRows * kChannels, type);
    const Array weight = added_to(compute, kChannels, type);
    const Array bias = added_to(compute, kChannels, type);
    compute.run(LayerNormBackward{.input = run.sum.buffer,
                                  .weight = run.arrays[2].buffer,
                                  .mean = run.mean.buffer,
                                  .inverse_deviation = run.inverse_deviation.buffer,
                                  .output_gradient = gradient.buffer,
                                  .input_gradient = input.buffer,
                                  .weight_gradient = weight.buffer,
                                  .bias_gradient = bias.buffer,
                                  .rows = kRows,
                                  .channels = kChannels});
    const Doubles both = added(compute, input);
    return {both, both, added(compute, weight), added(compute, bias)};
  };
  return one;
}

ComputeCase attention(std::size_t sequences, std::size_t context, std::size_t heads,
                      std::size_t head_size) {
  const std::size_t size = sequences * context * heads * head_size;
  const auto run_forward = [=](Compute& compute, DataType type, const Array& projections) {
    const Array output = compute.allocate(size, type);
    const Array log_sum = compute.allocate(sequences * heads * context, statistics(type));
    compute.run(Attention{.projections = projections.buffer,
                          .output = output.buffer,
                          .log_sum = log_sum.buffer,
                          .sequences = sequences,
                          .context = context,
                          .heads = heads,
                          .head_size = head_size});
    return std::pair(output, log_sum);
  };
  ComputeCase one;
  one.name = "attention over " + std::to_string(context) + " tokens";
  one.input_sizes = {3 * size};
  one.forward = [=](Compute& compute, DataType type, const Inputs& inputs) {
    const Array projections = on_device(compute, inputs[0], type);
    const auto [output, log_sum] = run_forward(compute, type, projections);
    return from_device(compute, output.buffer);
  };
  one.backward = [=](Compute& compute, DataType type, const Inputs& inputs,
                     const Doubles& output_gradient) -> Inputs {
    const Array projections = on_device(compute, inputs[0], type);
    const auto [output, log_sum] = run_forward(compute, type, projections);
    const Array gradient = on_device(compute, output_gradient, type);
    const Array result = added_to(compute, 3 * size, type);  // is written anyway
    compute.run(AttentionBackward{.projections = projections.buffer,
                                  .output = output.buffer,
                                  .log_sum = log_sum.buffer,
                                  .output_gradient = gradient.buffer,
                                  .projections_gradient = result.buffer,
                                  .sequences = sequences,
                                  .context = context,
                                  .heads = heads,
                                  .head_size = head_size});
    return {from_device(compute, result.buffer)};
  };
  return one;
}

ComputeCase gelu() {
  constexpr std::size_t kSize = 45;
  ComputeCase one;
  one.name = "GELU";
  one.input_sizes = {kSize};
  one.forward = [](Compute& compute, DataType type, const Inputs& inputs) {
    const Array input = on_device(compute, inputs[0], type);
    compute.run(Gelu{.input = input.buffer, .output = input.buffer, .elements = kSize});
    return from_device(compute, input.buffer);
  };
  one.backward = [](Compute& compute, DataType type, const Inputs& inputs,
                    const Doubles& output_gradient) -> Inputs {
    const Array input = on_device(compute, inputs[0], type);
    const Array gradient = on_device(compute, output_gradient, type);
    compute.run(GeluBackward{.input = input.buffer,
                             .output_gradient = gradient.buffer,
                             .input_gradient = gradient.buffer,
                             .elements = kSize});
    return {from_device(compute, gradient.buffer)};
  };
  return one;
}

ComputeCase cross_entropy() {
  constexpr std::size_t kRows = 3;
  constexpr std::size_t kColumns = 24;
  constexpr std::size_t kClasses = 19;
  constexpr double kScale = 0.25;
  const auto run = [=](Compute& compute, DataType type, const Inputs& inputs) {
    const Array logits = on_device(compute, inputs[0], type);
    const Array targets = on_device(compute, std::vector<std::int32_t>{0, 18, 7});
    const Array losses = compute.allocate(kRows, statistics(type));
    compute.run(CrossEntropy{.logits = logits.buffer,
                             .targets = targets.buffer,
                             .losses = losses.buffer,
                             .rows = kRows,
                             .columns = kColumns,
                             .classes = kClasses,
                             .gradient_scale = kScale});
    return std::pair(logits, losses);
  };
  ComputeCase one;
  one.name = "cross-entropy";
  one.input_sizes = {kRows * kColumns};
  one.forward = [=](Compute& compute, DataType type, const Inputs& inputs) {
    const auto losses = run(compute, type, inputs).second;
    double total = 0;
    for (const double loss : from_device(compute, losses.buffer)) total += kScale * loss;
    return Doubles{total};
  };
  one.backward = [=](Compute& compute, DataType type, const Inputs& inputs,
                     const Doubles& output_gradient) -> Inputs {
    const auto logits = run(compute, type, inputs).first;
    Doubles gradient = from_device(compute, logits.buffer);
    for (double& value : gradient) value *= output_gradient[0];
    return {gradient};
  };
  return one;
}

}  // namespace

std::vector<ComputeCase> compute_cases() {
  std::vector<ComputeCase> cases = {
      matrix_product(false, false), matrix_product(true, false), matrix_product(false, true),
      matrix_product(true, true), embedding(), layer_norm(), attention(2, 7, 3, 4),
      attention(1, 1, 1, 1),
      // More tokens than a block of any implementation, and not a multiple of one.
      attention(1, 150, 1, 8), gelu(), cross_entropy()};
  for (ComputeCase& one : network_cases()) cases.push_back(std::move(one));
  return cases;
}

std::vector<Doubles> random_inputs(const ComputeCase& one, std::mt19937& random) {
  std::vector<Doubles> inputs;
  for (const std::size_t size : one.input_sizes) inputs.push_back(random_doubles(size, random));
  return inputs;
}

}  // namespace ddprun::test
