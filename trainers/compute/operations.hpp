// Operations of GPT-2 and of small networks as plain values: arrays and their shapes. Arrays are
// row-major and without gaps; shapes are in brackets, outermost dimension first. Inputs and outputs
// must not overlap unless stated otherwise. compute.hpp runs the operations.
//
// Types. All arrays of an operation have one type, its activations': float32, bfloat16 or float64
// (see Compute::supports), with these exceptions:
// - Statistics (mean, inverse_deviation, log_sum, running values), losses, targets of regressions
//   and the optimizer's arrays are float32; float64 if the activations are.
// - The gradient of a weight has the weight's type, or it is float32 where that is bfloat16.
// - Tokens and targets are int32. Sums over a whole array end in one float64.
// bfloat16 values are converted to float32 for computation, and rounded once when they are stored.
//
// "Added to" means that results are accumulated; "written" means that they replace the content.
#pragma once

#include <ddprun/buffer.hpp>

#include <cstddef>
#include <cstdint>

namespace trainer {

using ddprun::Buffer;

/// result = left * right + bias.
struct MatrixProduct {
  Buffer left;       ///< [rows, inner]; [inner, rows] if left_is_transposed
  Buffer right;      ///< [inner, columns]; [columns, inner] if right_is_transposed
  Buffer bias = {};  ///< [columns], added to each row; without data: none. Not with `adds`.
  Buffer result;     ///< [rows, columns], written, or added to if `adds`
  std::size_t rows = 0;
  std::size_t columns = 0;
  std::size_t inner = 0;
  bool left_is_transposed = false;
  bool right_is_transposed = false;
  bool adds = false;  ///< the result may then be float32 with bfloat16 factors
};

/// Gradient of a bias: adds the sum over the rows to `result`.
struct SumOfRows {
  Buffer values;  ///< [rows, columns]
  Buffer result;  ///< [columns]
  std::size_t rows = 0;
  std::size_t columns = 0;
};

/// output[r] = token_table[tokens[r]] + position_table[r % context].
struct Embedding {
  Buffer tokens;          ///< [rows] int32, each within 0..vocabulary-1; not checked
  Buffer token_table;     ///< [vocabulary, channels]
  Buffer position_table;  ///< [at least context, channels]
  Buffer output;          ///< [rows, channels], written
  std::size_t rows = 0;   ///< a multiple of `context`
  std::size_t context = 0;
  std::size_t channels = 0;
};

struct EmbeddingBackward {
  Buffer tokens;             ///< [rows] int32
  Buffer output_gradient;    ///< [rows, channels]
  Buffer token_gradient;     ///< [vocabulary, channels], added to
  Buffer position_gradient;  ///< [at least context, channels], its first `context` rows added to
  std::size_t rows = 0;
  std::size_t context = 0;
  std::size_t channels = 0;
};

/// output[r] = the sum of table[t] over the `bag` tokens t of row r.
struct EmbeddingBag {
  Buffer tokens;  ///< [rows, bag] int32, each within the table; not checked
  Buffer table;   ///< [vocabulary, channels]
  Buffer output;  ///< [rows, channels], written
  std::size_t rows = 0;
  std::size_t bag = 0;
  std::size_t channels = 0;
};

struct EmbeddingBagBackward {
  Buffer tokens;           ///< [rows, bag] int32
  Buffer output_gradient;  ///< [rows, channels]
  Buffer table_gradient;   ///< [vocabulary, channels], added to
  std::size_t rows = 0;
  std::size_t bag = 0;
  std::size_t channels = 0;
};

/// Layer normalisation (Ba, Kiros and Hinton, 2016) of each row of `input`, or of the sum of
/// `input` and `addend`, which is then stored in `sum` and rounded before it is normalised:
/// output = (x - mean) * inverse_deviation * weight + bias, with
/// inverse_deviation = 1 / sqrt(variance + kLayerNormEpsilon).
struct LayerNorm {
  Buffer input;              ///< [rows, channels]
  Buffer addend = {};        ///< [rows, channels]; without data: none
  Buffer sum = {};           ///< [rows, channels], written if there is an addend
  Buffer weight;             ///< [channels]
  Buffer bias;               ///< [channels]
  Buffer output;             ///< [rows, channels], written
  Buffer mean;               ///< [rows] statistics, written
  Buffer inverse_deviation;  ///< [rows] statistics, written
  std::size_t rows = 0;
  std::size_t channels = 0;
};

/// Value of GPT-2 and PyTorch.
inline constexpr double kLayerNormEpsilon = 1e-5;

struct LayerNormBackward {
  Buffer input;   ///< [rows, channels]: the normalised array, so the sum if there was an addend
  Buffer weight;  ///< [channels]
  Buffer mean;    ///< [rows]
  Buffer inverse_deviation;  ///< [rows]
  Buffer output_gradient;    ///< [rows, channels]
  Buffer input_gradient;   ///< [rows, channels], added to: it contains the residual path's gradient
  Buffer weight_gradient;  ///< [channels], added to
  Buffer bias_gradient;    ///< [channels], added to
  std::size_t rows = 0;
  std::size_t channels = 0;
};

/// Causal self-attention: softmax(query * transposed(key) / sqrt(head size)) * value for each head
/// of each sequence, where a token attends to itself and earlier ones. Row r of `projections` has
/// the queries of all heads, then the keys, then the values, each [heads, head size].
struct Attention {
  Buffer projections;  ///< [sequences, context, 3, heads, head size]
  Buffer output;       ///< [sequences, context, heads, head size], written
  /// [sequences, heads, context] statistics, written: log of the sum of exponentials of each
  /// query's scaled scores, from which the backward pass recomputes the weights.
  Buffer log_sum;
  std::size_t sequences = 0;
  std::size_t context = 0;
  std::size_t heads = 0;
  std::size_t head_size = 0;
};

struct AttentionBackward {
  Buffer projections;           ///< see Attention
  Buffer output;                ///< output of Attention
  Buffer log_sum;               ///< log_sum of Attention
  Buffer output_gradient;       ///< shape of `output`
  Buffer projections_gradient;  ///< shape of `projections`, written
  std::size_t sequences = 0;
  std::size_t context = 0;
  std::size_t heads = 0;
  std::size_t head_size = 0;
};

/// output = 0.5 * x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3))): GPT-2's approximation.
struct Gelu {
  Buffer input;   ///< [elements]
  Buffer output;  ///< [elements], written; may be `input`
  std::size_t elements = 0;
};

struct GeluBackward {
  Buffer input;            ///< [elements], of the forward pass
  Buffer output_gradient;  ///< [elements]
  Buffer input_gradient;   ///< [elements], written; may be `output_gradient`
  std::size_t elements = 0;
};

/// Each column is normalised over the rows of the batch (Ioffe and Szegedy, 2015):
/// output = (x - mean) * inverse_deviation * scale + shift, with
/// inverse_deviation = 1 / sqrt(variance + kBatchNormEpsilon).
struct BatchNorm {
  Buffer input;              ///< [rows, columns]
  Buffer scale;              ///< [columns]
  Buffer shift;              ///< [columns]
  Buffer output;             ///< [rows, columns], written
  Buffer mean;               ///< [columns] statistics, written
  Buffer inverse_deviation;  ///< [columns] statistics, written
  Buffer running_mean;       ///< [columns] statistics
  Buffer running_variance;   ///< [columns] statistics
  std::size_t rows = 0;
  std::size_t columns = 0;
  /// True to use the batch's mean and variance and update the running values with
  /// kBatchNormMomentum (variance with divisor `rows` - 1; not for fewer than two rows). False to
  /// use the running values.
  bool trains = false;
};

/// Value of PyTorch.
inline constexpr double kBatchNormEpsilon = 1e-5;
inline constexpr double kBatchNormMomentum = 0.1;

/// Backward pass of a BatchNorm with `trains`. With y the normalised input and d for gradient:
/// dinput = scale * inverse_deviation * (doutput - (sum(doutput) + y * sum(doutput * y)) / rows).
struct BatchNormBackward {
  Buffer input;              ///< [rows, columns]
  Buffer scale;              ///< [columns]
  Buffer mean;               ///< [columns]
  Buffer inverse_deviation;  ///< [columns]
  Buffer output_gradient;    ///< [rows, columns]
  Buffer input_gradient;     ///< [rows, columns], written
  Buffer scale_gradient;     ///< [columns], added to
  Buffer shift_gradient;     ///< [columns], added to
  std::size_t rows = 0;
  std::size_t columns = 0;
};

enum class ActivationFunction : std::uint8_t {
  relu,     ///< max(x, 0)
  sigmoid,  ///< 1 / (1 + e^-x)
};

/// output = function(input), for functions whose derivative follows from their value.
struct Activation {
  ActivationFunction function = ActivationFunction::relu;
  Buffer input;   ///< [elements]
  Buffer output;  ///< [elements], written; may be `input`
  std::size_t elements = 0;
};

struct ActivationBackward {
  ActivationFunction function = ActivationFunction::relu;
  Buffer output;           ///< [elements], of the forward pass
  Buffer output_gradient;  ///< [elements]
  Buffer input_gradient;   ///< [elements], written; may be `output_gradient`
  std::size_t elements = 0;
};

/// Softmax and cross-entropy, forward and backward. Writes -log(softmax(row)[target]) of each row
/// to `losses`, and replaces the logits by gradient_scale * d(sum of the losses)/d(logits). Columns
/// from `classes` on are padding: they are ignored, and their gradient is 0.
struct CrossEntropy {
  Buffer logits;   ///< [rows, columns], replaced by their gradient unless gradient_scale is 0
  Buffer targets;  ///< [rows] int32, each within 0..classes-1; not checked
  Buffer losses;   ///< [rows] as statistics, written
  std::size_t rows = 0;
  std::size_t columns = 0;
  std::size_t classes = 0;
  /// Usually 1 / (tokens of all workers in the step). With 0, for evaluation, logits are
  /// unspecified afterwards.
  double gradient_scale = 0;
};

/// Mean over the columns of the squared error, forward and backward. Replaces the output by
/// gradient_scale * d(sum of the losses)/d(output).
struct MeanSquaredError {
  Buffer output;   ///< [rows, columns], replaced by its gradient unless gradient_scale is 0
  Buffer targets;  ///< [rows, columns] as statistics
  Buffer losses;   ///< [rows] as statistics, written
  std::size_t rows = 0;
  std::size_t columns = 0;
  double gradient_scale = 0;  ///< see CrossEntropy
};

/// Adds the sum of the values, or of their squares, to a total on the device.
struct AddSum {
  Buffer values;  ///< [elements] of any float type
  Buffer total;   ///< [1] float64
  std::size_t elements = 0;
  bool squares = false;
};

/// Step-dependent values of AdamW.
struct AdamWPace {
  double learning_rate = 0;
  double rate = 0;                ///< learning_rate / (1 - beta1^step)
  double inverse_correction = 0;  ///< 1 / sqrt(1 - beta2^step)
};

/// One step of AdamW (Loshchilov and Hutter, 2019) with PyTorch's rule, on one parameter:
///   g = gradient * clip, clip = min(1, gradient_norm_max / (norm + 1e-6))
///   mean = beta1 * mean + (1 - beta1) * g; square = beta2 * square + (1 - beta2) * g^2
///   value -= learning_rate * (weight_decay * value
///            + (mean / (1 - beta1^step)) / (sqrt(square / (1 - beta2^step)) + epsilon))
struct AdamW {
  Buffer values;       ///< [elements], changed
  Buffer master = {};  ///< [elements] float32 copy of bfloat16 values, which is updated and then
                       ///< converted to `values`; without data for other types
  Buffer gradient;     ///< [elements]
  Buffer
      mean;  ///< [elements] of the type of statistics, updated in place; zero before the first step
  Buffer square;  ///< [elements] of the type of statistics, updated in place; zero before the first
                  ///< step
  Buffer squared_norm;  ///< [1] float64: norm^2 of all parameters' gradients (AddSum)
  Buffer pace = {};     ///< [3] float64: an AdamWPace used instead of `step` and `learning_rate`
                        ///< when steps are recorded; empty if unused
  std::size_t elements = 0;
  std::int64_t step = 1;  ///< counts from 1
  double learning_rate = 0;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double epsilon = 1e-8;
  double weight_decay = 0;
  double gradient_norm_max = 0;  ///< 0: no clipping; squared_norm is then not read
};

/// One step of stochastic gradient descent with PyTorch's rule, on one parameter:
///   velocity = momentum * velocity + gradient; value -= learning_rate * velocity
struct Sgd {
  Buffer values;       ///< [elements], changed
  Buffer master = {};  ///< see AdamW
  Buffer gradient;     ///< [elements]
  Buffer velocity =
      {};  ///< [elements] of the type of statistics, updated in place; not read if `momentum` is 0
  std::size_t elements = 0;
  double learning_rate = 0;
  double momentum = 0;
};

/// output[i] = input[i] in another float type, rounded to the nearest.
struct Convert {
  Buffer input;
  Buffer output;
  std::size_t elements = 0;
};

}  // namespace trainer
