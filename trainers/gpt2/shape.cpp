#include "trainers/gpt2/shape.hpp"

#include <ddprun/error.hpp>

#include <cmath>
#include <functional>
#include <numbers>
#include <numeric>
#include <random>

namespace trainer::gpt2 {

namespace {

constexpr double kDeviation = 0.02;
constexpr std::size_t kLayerParameters = 12;
constexpr std::size_t kTables = 2;

[[noreturn]] void refuse_shape(const std::string& what) {
  throw ddprun::Error(ddprun::Errc::usage, what);
}

}  // namespace

const std::vector<Preset>& presets() {
  static const std::vector<Preset> all = {
      {"tiny", {.layers = 2, .heads = 2, .channels = 64, .context = 64}},
      {"small", {.layers = 6, .heads = 6, .channels = 384, .context = 256}},
      {"gpt2-124m", {.layers = 12, .heads = 12, .channels = 768, .context = 1024}},
      {"gpt2-350m", {.layers = 24, .heads = 16, .channels = 1024, .context = 1024}},
      {"gpt2-774m", {.layers = 36, .heads = 20, .channels = 1280, .context = 1024}},
      {"gpt2-1558m", {.layers = 48, .heads = 25, .channels = 1600, .context = 1024}},
  };
  return all;
}

Shape preset(std::string_view name) {
  std::string names;
  for (const Preset& one : presets()) {
    if (name == one.name) return one.shape;
    names += std::string(names.empty() ? "" : ", ") + one.name;
  }
  refuse_shape("there is no model '" + std::string(name) + "': choose one of " + names);
}

void check(const Shape& shape) {
  // Large enough for any use, and no product of two overflows.
  constexpr std::size_t kMost = std::size_t{1} << 24U;
  const auto one = [](const char* name, std::size_t value) {
    if (value >= 1 && value <= kMost) return;
    refuse_shape(std::string(name) + " must be within 1 and " + std::to_string(kMost) + ", not " +
                 std::to_string(value));
  };
  one("--layers", shape.layers);
  one("--heads", shape.heads);
  one("--channels", shape.channels);
  one("--context", shape.context);
  one("--vocabulary", shape.vocabulary);
  if (shape.channels % shape.heads != 0) {
    refuse_shape("--heads " + std::to_string(shape.heads) + " does not divide --channels " +
                 std::to_string(shape.channels));
  }
}

std::size_t ParameterSpec::elements() const {
  return std::accumulate(shape.begin(), shape.end(), std::size_t{1}, std::multiplies<>());
}

std::size_t index_of(std::size_t layer, LayerParameter which) {
  return kTables + layer * kLayerParameters + static_cast<std::size_t>(which);
}

std::size_t final_norm_weight(const Shape& shape) {
  return kTables + shape.layers * kLayerParameters;
}

std::size_t final_norm_bias(const Shape& shape) {
  return final_norm_weight(shape) + 1;
}

std::vector<ParameterSpec> parameters_of(const Shape& shape) {
  const std::size_t c = shape.channels;
  const double residual = kDeviation / std::sqrt(2.0 * static_cast<double>(shape.layers));
  std::vector<ParameterSpec> all;
  const auto matrix = [&](const std::string& name, std::size_t rows, std::size_t columns,
                          double deviation = kDeviation) {
    all.push_back({"transformer." + name, {rows, columns}, Start::normal, deviation});
  };
  const auto vector = [&](const std::string& name, std::size_t size, Start start) {
    all.push_back({"transformer." + name, {size}, start, 0});
  };
  matrix("wte.weight", shape.padded_vocabulary(), c);
  matrix("wpe.weight", shape.context, c);
  for (std::size_t layer = 0; layer < shape.layers; ++layer) {
    const std::string prefix = "h." + std::to_string(layer) + ".";
    vector(prefix + "ln_1.weight", c, Start::ones);
    vector(prefix + "ln_1.bias", c, Start::zeros);
    matrix(prefix + "attn.c_attn.weight", 3 * c, c);
    vector(prefix + "attn.c_attn.bias", 3 * c, Start::zeros);
    matrix(prefix + "attn.c_proj.weight", c, c, residual);
    vector(prefix + "attn.c_proj.bias", c, Start::zeros);
    vector(prefix + "ln_2.weight", c, Start::ones);
    vector(prefix + "ln_2.bias", c, Start::zeros);
    matrix(prefix + "mlp.c_fc.weight", 4 * c, c);
    vector(prefix + "mlp.c_fc.bias", 4 * c, Start::zeros);
    matrix(prefix + "mlp.c_proj.weight", c, 4 * c, residual);
    vector(prefix + "mlp.c_proj.bias", c, Start::zeros);
  }
  vector("ln_f.weight", c, Start::ones);
  vector("ln_f.bias", c, Start::zeros);
  return all;
}

std::vector<float> first_values(const Shape& shape, std::size_t index, std::uint64_t seed) {
  const ParameterSpec spec = parameters_of(shape)[index];
  std::vector<float> values(spec.elements(), spec.start == Start::ones ? 1.0F : 0.0F);
  if (spec.start != Start::normal) return values;
  std::seed_seq seeds = {seed & 0xffff'ffffU, seed >> 32U, static_cast<std::uint64_t>(index)};
  std::mt19937 random(seeds);
  // Two normal numbers from two uniform ones (Box and Muller, 1958), since distributions of the
  // standard library differ between implementations.
  const auto uniform = [&] { return (static_cast<double>(random()) + 0.5) * 0x1p-32; };
  const std::size_t used = index == kTokenTable ? shape.vocabulary * shape.channels : values.size();
  for (std::size_t i = 0; i < used; i += 2) {
    const double radius = spec.deviation * std::sqrt(-2 * std::log(uniform()));
    const double angle = 2 * std::numbers::pi * uniform();
    values[i] = static_cast<float>(radius * std::cos(angle));
    if (i + 1 < used) values[i + 1] = static_cast<float>(radius * std::sin(angle));
  }
  return values;
}

double flops_per_token(const Shape& shape) {
  const auto layers = static_cast<double>(shape.layers);
  const auto channels = static_cast<double>(shape.channels);
  const double weights =
      12 * layers * channels * channels + static_cast<double>(shape.vocabulary) * channels;
  return 6 * weights + 6 * layers * channels * static_cast<double>(shape.context);
}

}  // namespace trainer::gpt2
