#include "trainers/gpt2/tests/compute_shapes.hpp"

#include "trainers/compute/adamw_pace.hpp"
#include "trainers/gpt2/tests/random_arrays.hpp"

#include <span>
#include <utility>

namespace ddprun::test {

namespace {

using namespace trainer;

ComputeShape sum_of_rows(std::size_t rows, std::size_t columns) {
  return {"sum of " + std::to_string(rows) + " rows of " + std::to_string(columns),
          [=](Compute& compute, DataType type) {
            Arrays arrays(compute, type);
            const SumOfRows o{arrays.random(rows * columns), arrays.of(columns, DataType::float32),
                              rows, columns};
            compute.run(o);
            return arrays.read({o.result});
          }};
}

ComputeShape layer_norm(std::size_t rows, std::size_t channels) {
  return {"layer norm of " + std::to_string(rows) + " rows of " + std::to_string(channels),
          [=](Compute& compute, DataType type) {
            Arrays arrays(compute, type);
            const std::size_t size = rows * channels;
            const LayerNorm forward{.input = arrays.random(size),
                                    .weight = arrays.random(channels),
                                    .bias = arrays.random(channels),
                                    .output = arrays.random(size),
                                    .mean = arrays.of(rows, DataType::float32),
                                    .inverse_deviation = arrays.of(rows, DataType::float32),
                                    .rows = rows,
                                    .channels = channels};
            compute.run(forward);
            const LayerNormBackward backward{
                .input = forward.input,
                .weight = forward.weight,
                .mean = forward.mean,
                .inverse_deviation = forward.inverse_deviation,
                .output_gradient = arrays.random(size),
                .input_gradient = arrays.random(size),
                .weight_gradient = arrays.of(channels, DataType::float32),
                .bias_gradient = arrays.of(channels, DataType::float32),
                .rows = rows,
                .channels = channels};
            compute.run(backward);
            return arrays.read({forward.output, forward.mean, forward.inverse_deviation,
                                backward.input_gradient, backward.weight_gradient,
                                backward.bias_gradient});
          }};
}

ComputeShape embedding(std::size_t rows, std::size_t channels, std::size_t vocabulary) {
  return {
      "embedding of " + std::to_string(channels) + " channels",
      [=](Compute& compute, DataType type) {
        constexpr std::size_t kContext = 50;
        Arrays arrays(compute, type);
        const Embedding forward{arrays.tokens(rows, vocabulary),
                                arrays.random(vocabulary * channels),
                                arrays.random(kContext * channels),
                                arrays.random(rows * channels),
                                rows,
                                kContext,
                                channels};
        compute.run(forward);
        const EmbeddingBackward backward{forward.tokens,
                                         arrays.random(rows * channels),
                                         arrays.of(vocabulary * channels, DataType::float32),
                                         arrays.of(kContext * channels, DataType::float32),
                                         rows,
                                         kContext,
                                         channels};
        compute.run(backward);
        return arrays.read({forward.output, backward.token_gradient, backward.position_gradient});
      }};
}

ComputeShape attention(std::size_t context, std::size_t head_size) {
  return {"attention over " + std::to_string(context) + " tokens with heads of " +
              std::to_string(head_size),
          [=](Compute& compute, DataType type) {
            constexpr std::size_t kSequences = 1;
            constexpr std::size_t kHeads = 2;
            Arrays arrays(compute, type);
            const std::size_t size = kSequences * context * kHeads * head_size;
            const Attention forward{arrays.random(3 * size),
                                    arrays.random(size),
                                    arrays.of(kSequences * kHeads * context, DataType::float32),
                                    kSequences,
                                    context,
                                    kHeads,
                                    head_size};
            compute.run(forward);
            const AttentionBackward backward{forward.projections,
                                             forward.output,
                                             forward.log_sum,
                                             arrays.random(size),
                                             arrays.random(3 * size),
                                             kSequences,
                                             context,
                                             kHeads,
                                             head_size};
            compute.run(backward);
            return arrays.read({forward.output, forward.log_sum, backward.projections_gradient});
          }};
}

ComputeShape cross_entropy(std::size_t columns, std::size_t classes) {
  return {"cross-entropy of " + std::to_string(classes) + " classes",
          [=](Compute& compute, DataType type) {
            constexpr std::size_t kRows = 3;
            Arrays arrays(compute, type);
            const CrossEntropy o{arrays.random(kRows * columns),
                                 arrays.tokens(kRows, classes),
                                 arrays.of(kRows, DataType::float32),
                                 kRows,
                                 columns,
                                 classes,
                                 64.0};
            compute.run(o);
            return arrays.read({o.logits, o.losses});
          }};
}

ComputeShape gelu(std::size_t elements, std::size_t shift) {
  return {
      "GELU of " + std::to_string(elements) + " elements, shifted by " + std::to_string(shift),
      [=](Compute& compute, DataType type) {
        Arrays arrays(compute, type);
        const Gelu forward{arrays.shifted(elements, shift), arrays.shifted(elements, 0), elements};
        compute.run(forward);
        const GeluBackward backward{forward.input, arrays.shifted(elements, shift),
                                    arrays.shifted(elements, shift), elements};
        compute.run(backward);
        return arrays.read({forward.output, backward.input_gradient});
      }};
}

ComputeShape matrix_product(std::size_t columns) {
  return {"matrix product with bias, " + std::to_string(columns) + " columns",
          [=](Compute& compute, DataType type) {
            constexpr std::size_t kRows = 9;
            constexpr std::size_t kInner = 20;
            Arrays arrays(compute, type);
            MatrixProduct o{.left = arrays.random(kRows * kInner),
                            .right = arrays.random(kInner * columns),
                            .bias = arrays.random(columns),
                            .result = arrays.random(kRows * columns),
                            .rows = kRows,
                            .columns = columns,
                            .inner = kInner};
            compute.run(o);
            const Buffer with_bias = o.result;
            o.bias = {};
            o.result = arrays.of(kRows * columns, DataType::float32);
            o.adds = true;
            compute.run(o);
            return arrays.read({with_bias, o.result});
          }};
}

ComputeShape sum(std::size_t elements) {
  return {"sums of " + std::to_string(elements) + " elements",
          [=](Compute& compute, DataType type) {
            Arrays arrays(compute, type);
            AddSum o{arrays.random(elements), arrays.of(1, DataType::float64), elements};
            compute.run(o);
            const Buffer plain = o.total;
            o.total = arrays.of(1, DataType::float64);
            o.squares = true;
            compute.run(o);
            return arrays.read({plain, o.total});
          }};
}

/// If step and rate are in memory, the operation's own are different.
ComputeShape adamw(std::size_t elements, bool has_pace = false) {
  return {"AdamW on " + std::to_string(elements) + " elements" + (has_pace ? " at a pace" : ""),
          [=](Compute& compute, DataType type) {
            Arrays arrays(compute, type);
            AdamW o{.values = arrays.random(elements),
                    .gradient = arrays.of(elements, DataType::float32),
                    .mean = arrays.of(elements, DataType::float32),
                    .square = arrays.squares(elements, DataType::float32),
                    .squared_norm = arrays.of(1, DataType::float64),
                    .elements = elements,
                    .step = 2,
                    .learning_rate = 0.01,
                    .weight_decay = 0.1,
                    .gradient_norm_max = 0.5};
            // Of the device's own type: a CPU has only float32 weights.
            if (type == DataType::bfloat16) o.master = arrays.widened(o.values);
            if (has_pace) {
              const AdamWPace pace = adamw_pace(
                  std::exchange(o.step, 100), std::exchange(o.learning_rate, 1), o.beta1, o.beta2);
              o.pace = arrays.of(sizeof pace / sizeof(double), DataType::float64);
              compute.copy_in(std::as_bytes(std::span(&pace, 1)), o.pace);
            }
            compute.zero(o.squared_norm);
            compute.run(AddSum{o.gradient, o.squared_norm, elements, true});
            compute.run(o);
            return arrays.read({o.values, o.mean, o.square});
          }};
}

/// More arrays than a launch takes, of many sizes and some of them unaligned.
ComputeShape many_arrays() {
  return {"sums and AdamW of many arrays", [](Compute& compute, DataType type) {
            constexpr std::size_t kArrays = 90;
            Arrays arrays(compute, type);
            std::vector<AddSum> sums;
            std::vector<AdamW> steps;
            std::vector<Buffer> results;
            const Buffer total = arrays.of(1, DataType::float64);
            for (std::size_t i = 0; i < kArrays; ++i) {
              const std::size_t size = i == 7 ? 5000 : 1 + 4 * i / 3;
              const Buffer gradient = arrays.of(size + i % 2, DataType::float32).slice(i % 2, size);
              sums.push_back({gradient, total, size, true});
              steps.push_back({.values = arrays.random(size),
                               .gradient = gradient,
                               .mean = arrays.of(size, DataType::float32),
                               .square = arrays.squares(size, DataType::float32),
                               .squared_norm = total,
                               .elements = size,
                               .step = 3,
                               .learning_rate = 0.01,
                               .weight_decay = i % 3 == 0 ? 0.1 : 0,
                               .gradient_norm_max = 2});
              AdamW& o = steps.back();
              if (type == DataType::bfloat16) o.master = arrays.widened(o.values);
              results.insert(results.end(), {o.values, o.mean, o.square});
            }
            compute.zero(total);
            compute.run(sums);
            compute.run(steps);
            results.push_back(total);
            return arrays.read(results);
          }};
}

}  // namespace

std::vector<ComputeShape> compute_shapes() {
  return {sum_of_rows(300, 96),
          sum_of_rows(5000, 12),
          sum_of_rows(70, 37),
          layer_norm(130, 160),
          layer_norm(9, 24),
          embedding(300, 1028, 7),
          embedding(100, 16, 90),
          cross_entropy(4160, 4111),
          cross_entropy(30, 30),
          gelu(4096, 0),
          gelu(4096, 1),
          gelu(4099, 0),
          matrix_product(64),
          matrix_product(21),
          sum(40'000),
          sum(33),
          adamw(1000),
          adamw(777),
          adamw(500, true),
          many_arrays()};
}

std::vector<ComputeShape> attention_shapes() {
  return {attention(70, 16), attention(33, 32),  attention(40, 40),
          attention(70, 64), attention(35, 128), attention(20, 72)};
}

}  // namespace ddprun::test
