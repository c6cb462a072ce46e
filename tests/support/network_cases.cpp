#include "tests/support/compute_cases.hpp"

namespace ddprun::test {

namespace {

using namespace trainer;

using Inputs = std::vector<Doubles>;

/// Arrays of a batch normalisation: input, scale, shift.
struct BatchNormRun {
  static constexpr std::size_t kRows = 70;    // more than a block sums at once
  static constexpr std::size_t kColumns = 5;  // not a multiple of any vector's length

  BatchNormRun(Compute& compute, DataType type, const Inputs& inputs)
      : output(compute.allocate(kRows * kColumns, type)),
        mean(compute.allocate(kColumns, statistics(type))),
        inverse_deviation(compute.allocate(kColumns, statistics(type))),
        running_mean(compute.allocate(kColumns, statistics(type))),
        running_variance(compute.allocate(kColumns, statistics(type))) {
    for (const Doubles& input : inputs) arrays.push_back(on_device(compute, input, type));
    compute.run(BatchNorm{.input = arrays[0].buffer,
                          .scale = arrays[1].buffer,
                          .shift = arrays[2].buffer,
                          .output = output.buffer,
                          .mean = mean.buffer,
                          .inverse_deviation = inverse_deviation.buffer,
                          .running_mean = running_mean.buffer,
                          .running_variance = running_variance.buffer,
                          .rows = kRows,
                          .columns = kColumns,
                          .trains = true});
  }

  std::vector<Array> arrays;
  Array output;
  Array mean;
  Array inverse_deviation;
  Array running_mean;
  Array running_variance;
};

ComputeCase batch_norm() {
  constexpr std::size_t kRows = BatchNormRun::kRows;
  constexpr std::size_t kColumns = BatchNormRun::kColumns;
  ComputeCase one;
  one.name = "batch norm";
  one.input_sizes = {kRows * kColumns, kColumns, kColumns};
  one.forward = [](Compute& compute, DataType type, const Inputs& inputs) {
    const BatchNormRun run(compute, type, inputs);
    return from_device(compute, run.output.buffer);
  };
  one.backward = [](Compute& compute, DataType type, const Inputs& inputs,
                    const Doubles& output_gradient) -> Inputs {
    const BatchNormRun run(compute, type, inputs);
    const Array gradient = on_device(compute, output_gradient, type);
    const Array input = compute.allocate(kRows * kColumns, type);
    const Array scale = on_device(compute, Doubles(kColumns, kBefore), statistics(type));
    const Array shift = on_device(compute, Doubles(kColumns, kBefore), statistics(type));
    compute.run(BatchNormBackward{.input = run.arrays[0].buffer,
                                  .scale = run.arrays[1].buffer,
                                  .mean = run.mean.buffer,
                                  .inverse_deviation = run.inverse_deviation.buffer,
                                  .output_gradient = gradient.buffer,
                                  .input_gradient = input.buffer,
                                  .scale_gradient = scale.buffer,
                                  .shift_gradient = shift.buffer,
                                  .rows = kRows,
                                  .columns = kColumns});
    return {from_device(compute, input.buffer), added(compute, scale), added(compute, shift)};
  };
  return one;
}

ComputeCase embedding_bag() {
  constexpr std::size_t kRows = 2;
  constexpr std::size_t kBag = 3;
  constexpr std::size_t kChannels = 4;
  constexpr std::size_t kVocabulary = 5;
  const std::vector<std::int32_t> tokens = {4, 0, 4, 1, 4, 3};  // one twice in a bag, one never
  ComputeCase one;
  one.name = "embedding bag";
  one.input_sizes = {kVocabulary * kChannels};
  one.forward = [=](Compute& compute, DataType type, const Inputs& inputs) {
    const Array table = on_device(compute, inputs[0], type);
    const Array output = compute.allocate(kRows * kChannels, type);
    const Array which = on_device(compute, tokens);
    compute.run(EmbeddingBag{.tokens = which.buffer,
                             .table = table.buffer,
                             .output = output.buffer,
                             .rows = kRows,
                             .bag = kBag,
                             .channels = kChannels});
    return from_device(compute, output.buffer);
  };
  one.backward = [=](Compute& compute, DataType type, const Inputs&,
                     const Doubles& output_gradient) -> Inputs {
    const Array gradient = on_device(compute, output_gradient, type);
    const Array which = on_device(compute, tokens);
    const Array table = on_device(compute, Doubles(kVocabulary * kChannels, kBefore), type);
    compute.run(EmbeddingBagBackward{.tokens = which.buffer,
                                     .output_gradient = gradient.buffer,
                                     .table_gradient = table.buffer,
                                     .rows = kRows,
                                     .bag = kBag,
                                     .channels = kChannels});
    return {added(compute, table)};
  };
  return one;
}

ComputeCase activation(const std::string& name, ActivationFunction function) {
  constexpr std::size_t kSize = 45;
  const auto run = [=](Compute& compute, DataType type, const Inputs& inputs) {
    const Array values = on_device(compute, inputs[0], type);
    compute.run(Activation{
        .function = function, .input = values.buffer, .output = values.buffer, .elements = kSize});
    return values;
  };
  ComputeCase one;
  one.name = name;
  one.input_sizes = {kSize};
  one.forward = [=](Compute& compute, DataType type, const Inputs& inputs) {
    return from_device(compute, run(compute, type, inputs).buffer);
  };
  one.backward = [=](Compute& compute, DataType type, const Inputs& inputs,
                     const Doubles& output_gradient) -> Inputs {
    const Array output = run(compute, type, inputs);
    const Array gradient = on_device(compute, output_gradient, type);
    compute.run(ActivationBackward{.function = function,
                                   .output = output.buffer,
                                   .output_gradient = gradient.buffer,
                                   .input_gradient = gradient.buffer,
                                   .elements = kSize});
    return {from_device(compute, gradient.buffer)};
  };
  return one;
}

ComputeCase mean_squared_error() {
  constexpr std::size_t kRows = 3;
  constexpr std::size_t kColumns = 7;
  constexpr double kScale = 0.25;
  const auto run = [=](Compute& compute, DataType type, const Inputs& inputs) {
    std::mt19937 random(2);
    const Array output = on_device(compute, inputs[0], type);
    const Array targets =
        on_device(compute, random_doubles(kRows * kColumns, random), statistics(type));
    const Array losses = compute.allocate(kRows, statistics(type));
    compute.run(MeanSquaredError{.output = output.buffer,
                                 .targets = targets.buffer,
                                 .losses = losses.buffer,
                                 .rows = kRows,
                                 .columns = kColumns,
                                 .gradient_scale = kScale});
    return std::pair(output, losses);
  };
  ComputeCase one;
  one.name = "mean squared error";
  one.input_sizes = {kRows * kColumns};
  one.forward = [=](Compute& compute, DataType type, const Inputs& inputs) {
    const auto losses = run(compute, type, inputs).second;
    double total = 0;
    for (const double loss : from_device(compute, losses.buffer)) total += kScale * loss;
    return Doubles{total};
  };
  one.backward = [=](Compute& compute, DataType type, const Inputs& inputs,
                     const Doubles& output_gradient) -> Inputs {
    const auto output = run(compute, type, inputs).first;
    Doubles gradient = from_device(compute, output.buffer);
    for (double& value : gradient) value *= output_gradient[0];
    return {gradient};
  };
  return one;
}

}  // namespace

std::vector<ComputeCase> network_cases() {
  return {batch_norm(), embedding_bag(), activation("ReLU", ActivationFunction::relu),
          activation("sigmoid", ActivationFunction::sigmoid), mean_squared_error()};
}

}  // namespace ddprun::test
