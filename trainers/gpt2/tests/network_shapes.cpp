#include "trainers/gpt2/tests/compute_shapes.hpp"
#include "trainers/gpt2/tests/random_arrays.hpp"

namespace ddprun::test {

namespace {

using namespace trainer;

ComputeShape embedding_bag(std::size_t rows, std::size_t bag, std::size_t channels) {
  return {"embedding bag of " + std::to_string(bag) + " tokens with " + std::to_string(channels) +
              " channels",
          [=](Compute& compute, DataType type) {
            constexpr std::size_t kVocabulary = 13;
            Arrays arrays(compute, type);
            const EmbeddingBag forward{arrays.tokens(rows * bag, kVocabulary),
                                       arrays.random(kVocabulary * channels),
                                       arrays.random(rows * channels),
                                       rows,
                                       bag,
                                       channels};
            compute.run(forward);
            const EmbeddingBagBackward backward{
                forward.tokens,
                arrays.random(rows * channels),
                arrays.of(kVocabulary * channels, DataType::float32),
                rows,
                bag,
                channels};
            compute.run(backward);
            return arrays.read({forward.output, backward.table_gradient});
          }};
}

ComputeShape batch_norm(std::size_t rows, std::size_t columns, bool trains) {
  return {std::string("batch norm of ") + std::to_string(rows) + " rows of " +
              std::to_string(columns) + (trains ? "" : ", evaluating"),
          [=](Compute& compute, DataType type) {
            Arrays arrays(compute, type);
            const std::size_t size = rows * columns;
            const auto statistics = [&] { return arrays.of(columns, DataType::float32); };
            const BatchNorm forward{.input = arrays.random(size),
                                    .scale = arrays.random(columns),
                                    .shift = arrays.random(columns),
                                    .output = arrays.random(size),
                                    .mean = statistics(),
                                    .inverse_deviation = statistics(),
                                    .running_mean = statistics(),
                                    .running_variance = arrays.squares(columns, DataType::float32),
                                    .rows = rows,
                                    .columns = columns,
                                    .trains = trains};
            compute.run(forward);
            std::vector<Buffer> results = {forward.mean, forward.running_mean,
                                           forward.running_variance};
            // The deviation of a single row is 0, so its results are rounding errors and their
            // multiples.
            if (rows > 1) results.push_back(forward.output);
            if (trains && rows > 1) {
              const BatchNormBackward backward{.input = forward.input,
                                               .scale = forward.scale,
                                               .mean = forward.mean,
                                               .inverse_deviation = forward.inverse_deviation,
                                               .output_gradient = arrays.random(size),
                                               .input_gradient = arrays.random(size),
                                               .scale_gradient = statistics(),
                                               .shift_gradient = statistics(),
                                               .rows = rows,
                                               .columns = columns};
              compute.run(backward);
              results.insert(results.end(), {backward.input_gradient, backward.scale_gradient,
                                             backward.shift_gradient});
            }
            return arrays.read(results);
          }};
}

ComputeShape activation(ActivationFunction function, std::size_t elements, std::size_t shift) {
  return {std::string(function == ActivationFunction::relu ? "ReLU" : "sigmoid") + " of " +
              std::to_string(elements) + " elements, shifted by " + std::to_string(shift),
          [=](Compute& compute, DataType type) {
            Arrays arrays(compute, type);
            const Activation forward{function, arrays.shifted(elements, shift),
                                     arrays.shifted(elements, 0), elements};
            compute.run(forward);
            const ActivationBackward backward{function, forward.output,
                                              arrays.shifted(elements, shift),
                                              arrays.shifted(elements, shift), elements};
            compute.run(backward);
            return arrays.read({forward.output, backward.input_gradient});
          }};
}

ComputeShape mean_squared_error(std::size_t rows, std::size_t columns) {
  return {"mean squared error of " + std::to_string(rows) + " rows of " + std::to_string(columns),
          [=](Compute& compute, DataType type) {
            Arrays arrays(compute, type);
            const MeanSquaredError o{arrays.random(rows * columns),
                                     arrays.of(rows * columns, DataType::float32),
                                     arrays.of(rows, DataType::float32),
                                     rows,
                                     columns,
                                     0.5};
            compute.run(o);
            return arrays.read({o.output, o.losses});
          }};
}

ComputeShape sgd(std::size_t elements, double momentum) {
  return {
      "SGD on " + std::to_string(elements) + " elements" + (momentum == 0 ? "" : " with momentum"),
      [=](Compute& compute, DataType type) {
        Arrays arrays(compute, type);
        Sgd o{.values = arrays.random(elements),
              .gradient = arrays.of(elements, DataType::float32),
              .velocity = arrays.of(elements, DataType::float32),
              .elements = elements,
              .learning_rate = 0.1,
              .momentum = momentum};
        if (type == DataType::bfloat16) o.master = arrays.widened(o.values);
        compute.run(o);
        return arrays.read({o.values, o.velocity});
      }};
}

}  // namespace

std::vector<ComputeShape> network_shapes() {
  return {embedding_bag(30, 11, 64),
          embedding_bag(5, 3, 7),
          batch_norm(130, 36, true),
          batch_norm(5000, 7, true),
          batch_norm(1, 5, true),
          batch_norm(9, 12, false),
          activation(ActivationFunction::relu, 4096, 0),
          activation(ActivationFunction::relu, 4099, 1),
          activation(ActivationFunction::sigmoid, 4096, 1),
          activation(ActivationFunction::sigmoid, 4099, 0),
          mean_squared_error(20, 64),
          mean_squared_error(9, 5),
          sgd(1000, 0.9),
          sgd(777, 0)};
}

}  // namespace ddprun::test
