// Sizes and parameters of a GPT-2, and its computational cost. Pure.
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
  std::size_t channels = 0;    ///< per token; a multiple of `heads`
  std::size_t context = 0;     ///< maximum number of tokens of a sequence
  std::size_t vocabulary = 0;  ///< number of different tokens

  std::size_t head_size() const { return channels / heads; }

  /// Rows of the token table. Matrix products are faster if sizes are multiples of 64; additional
  /// rows have no token and stay zero.
  std::size_t padded_vocabulary() const { return (vocabulary + 63) / 64 * 64; }

  bool operator==(const Shape&) const = default;
};

/// Presets by name, smallest first; their `vocabulary` is 0, since the data determines it.
struct Preset {
  const char* name;
  Shape shape;
};
const std::vector<Preset>& presets();

/// Throws Error{Errc::usage} for an unknown name, listing the names.
Shape preset(std::string_view name);

/// Throws Error{Errc::usage} for invalid sizes: no layers, channels that are not a multiple of the
/// heads, ...
void check(const Shape& shape);

enum class Start { normal, zeros, ones };

/// A parameter of GPT-2. Matrices are [outputs, inputs], as in PyTorch's Linear.
struct ParameterSpec {
  std::string name;                ///< "transformer.h.0.attn.c_attn.weight"
  std::vector<std::size_t> shape;  ///< one or two dimensions
  Start start = Start::zeros;
  double deviation = 0;  ///< standard deviation for Start::normal

  std::size_t elements() const;
  /// Weight decay applies to weights of matrix products and embeddings, not to biases and
  /// normalisations.
  bool decays() const { return shape.size() > 1; }
};

/// Parameters of a layer, in order of definition.
enum class LayerParameter : std::size_t {
  norm1_weight,
  norm1_bias,
  projections_weight,  ///< queries, keys and values
  projections_bias,
  attended_weight,  ///< from the heads to the residual path
  attended_bias,
  norm2_weight,
  norm2_bias,
  hidden_weight,
  hidden_bias,
  contraction_weight,
  contraction_bias,
};

/// Positions of parameters in parameters_of(). The token table is also the last layer's weight.
inline constexpr std::size_t kTokenTable = 0;
inline constexpr std::size_t kPositionTable = 1;
std::size_t index_of(std::size_t layer, LayerParameter which);
std::size_t final_norm_weight(const Shape& shape);
std::size_t final_norm_bias(const Shape& shape);

/// In order of definition, equal on all workers.
std::vector<ParameterSpec> parameters_of(const Shape& shape);

/// Returns the initial values of parameter `index`, which depend on seed and index only. As in
/// GPT-2: N(0, 0.02), and N(0, 0.02 / sqrt(2 * layers)) for weights whose output is added to the
/// residual path.
std::vector<float> first_values(const Shape& shape, std::size_t index, std::uint64_t seed);

/// Returns the floating-point operations of the forward and backward pass for one token of a full
/// sequence, without recomputation: 6 per weight of a matrix product, and 6 * layers * channels *
/// context for attention, where a token attends to half of the others on average.
double flops_per_token(const Shape& shape);

}  // namespace trainer::gpt2
