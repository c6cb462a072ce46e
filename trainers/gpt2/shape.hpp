// What a GPT-2 consists of: its sizes, its parameters and the work that they make. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace trainer::gpt2 {

struct Shape {
  std::size_t layers = 0;
  std::size_t heads = 0;
  std::size_t channels = 0;    ///< of each token, a multiple of `heads`
  std::size_t context = 0;     ///< tokens of a sequence, at most
  std::size_t vocabulary = 0;  ///< different tokens

  std::size_t head_size() const { return channels / heads; }

  /// Rows of the token table. Matrix products are faster if their sizes are multiples of 64; the
  /// rows from `vocabulary` on belong to no token and stay zero.
  std::size_t padded_vocabulary() const { return (vocabulary + 63) / 64 * 64; }

  bool operator==(const Shape&) const = default;
};

/// Presets by name, smallest first; `vocabulary` is 0: it is the data's.
struct Preset {
  const char* name;
  Shape shape;
};
const std::vector<Preset>& presets();

/// Throws Error{Errc::usage} for an unknown name, listing the names.
Shape preset(std::string_view name);

/// Throws Error{Errc::usage} naming what does not go together: no layers, channels that the heads
/// do not divide, ...
void check(const Shape& shape);

enum class Start { normal, zeros, ones };

/// A parameter as GPT-2 has it. Matrices are [outputs, inputs], as in PyTorch's Linear.
struct ParameterSpec {
  std::string name;                ///< "transformer.h.0.attn.c_attn.weight"
  std::vector<std::size_t> shape;  ///< one or two dimensions
  Start start = Start::zeros;
  double deviation = 0;  ///< of Start::normal

  std::size_t elements() const;
  /// Weights of matrix products and embeddings decay, biases and normalisations do not.
  bool decays() const { return shape.size() > 1; }
};

/// Parameters of a layer, in order of definition.
enum class LayerParameter : std::size_t {
  norm1_weight,
  norm1_bias,
  projections_weight,  ///< queries, keys and values
  projections_bias,
  attended_weight,  ///< from the heads back into the residual path
  attended_bias,
  norm2_weight,
  norm2_bias,
  hidden_weight,
  hidden_bias,
  contraction_weight,
  contraction_bias,
};

/// Where parameters stand in parameters_of(). The token table is the last layer's weight, too.
inline constexpr std::size_t kTokenTable = 0;
inline constexpr std::size_t kPositionTable = 1;
std::size_t index_of(std::size_t layer, LayerParameter which);
std::size_t final_norm_weight(const Shape& shape);
std::size_t final_norm_bias(const Shape& shape);

/// In order of definition, the same on every worker.
std::vector<ParameterSpec> parameters_of(const Shape& shape);

/// First values of parameter `index`: a function of the seed and the index alone. Normal ones are
/// GPT-2's, N(0, 0.02), and those of weights that end in the residual path N(0, 0.02 / sqrt(2 *
/// layers)).
std::vector<float> first_values(const Shape& shape, std::size_t index, std::uint64_t seed);

/// Floating-point operations of the forward and backward pass for one token of a full sequence, as
/// the model needs them, not as they are carried out: 6 for each weight of a matrix product, and
/// 6 * layers * channels * context for attention, where a token sees half of the others on average.
double flops_per_token(const Shape& shape);

}  // namespace trainer::gpt2
