// The operations of GPT-2 and of small networks as plain values: which arrays, and how they are
// shaped. Arrays are
// row-major and without gaps; shapes stand in brackets, outermost dimension first. What an
// operation reads and what it writes must not overlap unless it says so. Who carries them out:
// compute.hpp.
//
// Types. All arrays of an operation have one type, its activations': float32, bfloat16 or float64
// (see Compute::supports), with these exceptions:
// - Statistics (mean, inverse_deviation, log_sum, running values), losses, what a regression aims
//   at and the optimizer's arrays are float32; float64 if the activations are.
// - The gradient of a weight has the weight's type, or it is float32 where that is bfloat16.
// - Tokens and targets are int32. Sums over a whole array end in one float64.
// bfloat16 values are computed with in float32 and rounded once to the nearest when they are
// stored.
//
// "Adds to" means that what the array held before counts; "writes" means that it does not.
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
  bool adds = false;  ///< the result may then be float32 beside bfloat16 factors
};

/// The gradient of a bias: adds the sum over the rows to `result`.
struct SumOfRows {
  Buffer values;  ///< [rows, columns]
  Buffer result;  ///< [columns]
  std::size_t rows = 0;
  std::size_t columns = 0;
};

/// output[r] = token_table[tokens[r]] + position_table[r % context].
struct Embedding {
  Buffer tokens;          ///< [rows] int32, each within 0..vocabulary-1: the caller has seen to it
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
  Buffer tokens;  ///< [rows, bag] int32, each within the table: the caller has seen to it
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

/// As in GPT-2 and PyTorch.
inline constexpr double kLayerNormEpsilon = 1e-5;

struct LayerNormBackward {
  Buffer input;              ///< [rows, channels]: what was normalised, so the sum if there was one
  Buffer weight;             ///< [channels]
  Buffer mean;               ///< [rows]
  Buffer inverse_deviation;  ///< [rows]
  Buffer output_gradient;    ///< [rows, channels]
  Buffer input_gradient;     ///< [rows, channels], added to: the residual path is there already
  Buffer weight_gradient;    ///< [channels], added to
  Buffer bias_gradient;      ///< [channels], added to
  std::size_t rows = 0;
  std::size_t channels = 0;
};

/// Causal self-attention: softmax(query * transposed(key) / sqrt(head size)) * value for each head
/// of each sequence, where a token sees itself and those before it. Row r of `projections` has the
/// queries of all heads, then the keys, then the values, each [heads, head size].
struct Attention {
  Buffer projections;  ///< [sequences, context, 3, heads, head size]
  Buffer output;       ///< [sequences, context, heads, head size], written
  /// [sequences, heads, context] statistics, written: the logarithm of the sum of the exponentials
  /// of each query's scaled scores, from which a backward pass finds the weights again.
  Buffer log_sum;
  std::size_t sequences = 0;
  std::size_t context = 0;
  std::size_t heads = 0;
  std::size_t head_size = 0;
};

struct AttentionBackward {
  Buffer projections;           ///< as in Attention
  Buffer output;                ///< as written by Attention
  Buffer log_sum;               ///< as written by Attention
  Buffer output_gradient;       ///< as output
  Buffer projections_gradient;  ///< as projections, written
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
  /// The batch's own mean and variance count, and the running ones move towards them by
  /// kBatchNormMomentum, the variance of `rows` - 1 values there; a batch of less than two rows
  /// leaves them alone. Otherwise the running ones count.
  bool trains = false;
};

/// As in PyTorch.
inline constexpr double kBatchNormEpsilon = 1e-5;
inline constexpr double kBatchNormMomentum = 0.1;

/// Of a BatchNorm that trained. With y the normalised input and d for "gradient by":
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

/// output = function(input). Those whose slope follows from their value.
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

/// Softmax and cross-entropy in one, forward and backward. Writes to `losses` how surprising each
/// row's target is, -log(softmax(row)[target]), and puts in place of the logits
/// gradient_scale * d(sum of the losses)/d(logits). Columns from `classes` on are padding: they
/// take no part, and their gradient is 0.
struct CrossEntropy {
  Buffer logits;   ///< [rows, columns], replaced by their gradient unless gradient_scale is 0
  Buffer targets;  ///< [rows] int32, each within 0..classes-1: the caller has seen to it
  Buffer losses;   ///< [rows] as statistics, written
  std::size_t rows = 0;
  std::size_t columns = 0;
  std::size_t classes = 0;
  /// Usually 1 / (tokens of all workers in the step). With 0, for evaluation, the logits' content
  /// is unspecified afterwards.
  double gradient_scale = 0;
};

/// The mean over the columns of the squared distance from what is aimed at, forward and backward.
/// Puts in place of the output gradient_scale * d(sum of the losses)/d(output).
struct MeanSquaredError {
  Buffer output;   ///< [rows, columns], replaced by its gradient unless gradient_scale is 0
  Buffer targets;  ///< [rows, columns] as statistics
  Buffer losses;   ///< [rows] as statistics, written
  std::size_t rows = 0;
  std::size_t columns = 0;
  double gradient_scale = 0;  ///< as in CrossEntropy
};

/// Adds the sum of the values, or of their squares, to a total that stays on the device.
struct AddSum {
  Buffer values;  ///< [elements] of any float type
  Buffer total;   ///< [1] float64
  std::size_t elements = 0;
  bool squares = false;
};

/// What of AdamW is another in each step.
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
  Buffer values;        ///< [elements], changed
  Buffer master = {};   ///< [elements] float32 where values are bfloat16: what is changed; `values`
                        ///< is written from it. Without data otherwise.
  Buffer gradient;      ///< [elements]
  Buffer mean;          ///< [elements] as statistics, changed; zero before the first step
  Buffer square;        ///< [elements] as statistics, changed; zero before the first step
  Buffer squared_norm;  ///< [1] float64: norm^2 of all parameters' gradients (AddSum)
  Buffer pace = {};     ///< [3] float64, an AdamWPace that counts in place of `step` and
                        ///< `learning_rate`, for steps that are recorded; without data: none
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
  Buffer values;         ///< [elements], changed
  Buffer master = {};    ///< as in AdamW
  Buffer gradient;       ///< [elements]
  Buffer velocity = {};  ///< [elements] as statistics, changed; not read if `momentum` is 0
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
