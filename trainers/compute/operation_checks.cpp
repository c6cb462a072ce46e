#include "trainers/compute/operation_checks.hpp"

#include <ddprun/error.hpp>

#include <initializer_list>
#include <string>

namespace trainer {

namespace {

using ddprun::DataType;

/// Required type of an operation's array.
enum class Kind {
  activation,       ///< of the operation's type
  weight_gradient,  ///< of the operation's type, or float32 with bfloat16
  statistic,        ///< float32; float64 if the operation's type is
  tokens,           ///< int32
  total,            ///< float64
  any_float,
};

struct Demand {
  const char* name;
  const Buffer& buffer;
  std::size_t elements;
  Kind kind = Kind::activation;
};

bool is_float(DataType type) {
  return type == DataType::float32 || type == DataType::float64 || type == DataType::bfloat16;
}

bool fits(DataType type, Kind kind, DataType activations) {
  const bool is_half = activations == DataType::bfloat16;
  switch (kind) {
    case Kind::activation:
      return type == activations && is_float(type);
    case Kind::weight_gradient:
      return type == activations || (is_half && type == DataType::float32);
    case Kind::statistic:
      return type == (is_half ? DataType::float32 : activations);
    case Kind::tokens:
      return type == DataType::int32;
    case Kind::total:
      return type == DataType::float64;
    case Kind::any_float:
      return is_float(type);
  }
  return false;
}

void demand(const char* operation, ddprun::Device device, DataType activations,
            std::initializer_list<Demand> demands) {
  const auto refuse = [&](const Demand& one, const std::string& what) {
    throw ddprun::Error(ddprun::Errc::usage, std::string(operation) + ": " + one.name + " " + what);
  };
  for (const Demand& one : demands) {
    const Buffer& buffer = one.buffer;
    if (one.elements > 0 && buffer.data == nullptr) refuse(one, "is missing");
    if (buffer.elements < one.elements) {
      refuse(one, "has " + std::to_string(buffer.elements) + " elements, " +
                      std::to_string(one.elements) + " are needed");
    }
    if (!fits(buffer.type, one.kind, activations)) {
      refuse(one, std::string("is of type ") + to_string(buffer.type) +
                      ", which does not fit activations of type " + to_string(activations));
    }
    if (buffer.device != device) refuse(one, "is on another device");
  }
}

}  // namespace

void check(const MatrixProduct& o, ddprun::Device device) {
  demand("matrix product", device, o.left.type,
         {{"left", o.left, o.rows * o.inner},
          {"right", o.right, o.inner * o.columns},
          {"result", o.result, o.rows * o.columns,
           o.adds ? Kind::weight_gradient : Kind::activation}});
  if (o.bias.data == nullptr) return;
  demand("matrix product", device, o.left.type, {{"bias", o.bias, o.columns}});
  if (o.adds) {
    throw ddprun::Error(ddprun::Errc::usage,
                        "matrix product: a bias cannot go with a result that is added to");
  }
}

void check(const SumOfRows& o, ddprun::Device device) {
  demand("sum of rows", device, o.values.type,
         {{"values", o.values, o.rows * o.columns},
          {"result", o.result, o.columns, Kind::weight_gradient}});
}

void check(const Embedding& o, ddprun::Device device) {
  demand("embedding", device, o.output.type,
         {{"tokens", o.tokens, o.rows, Kind::tokens},
          {"token_table", o.token_table, o.channels},
          {"position_table", o.position_table, o.context * o.channels},
          {"output", o.output, o.rows * o.channels}});
}

void check(const EmbeddingBackward& o, ddprun::Device device) {
  demand(
      "embedding backward", device, o.output_gradient.type,
      {{"tokens", o.tokens, o.rows, Kind::tokens},
       {"output_gradient", o.output_gradient, o.rows * o.channels},
       {"token_gradient", o.token_gradient, o.channels, Kind::weight_gradient},
       {"position_gradient", o.position_gradient, o.context * o.channels, Kind::weight_gradient}});
}

void check(const EmbeddingBag& o, ddprun::Device device) {
  demand("embedding bag", device, o.output.type,
         {{"tokens", o.tokens, o.rows * o.bag, Kind::tokens},
          {"table", o.table, o.channels},
          {"output", o.output, o.rows * o.channels}});
}

void check(const EmbeddingBagBackward& o, ddprun::Device device) {
  demand("embedding bag backward", device, o.output_gradient.type,
         {{"tokens", o.tokens, o.rows * o.bag, Kind::tokens},
          {"output_gradient", o.output_gradient, o.rows * o.channels},
          {"table_gradient", o.table_gradient, o.channels, Kind::weight_gradient}});
}

void check(const LayerNorm& o, ddprun::Device device) {
  const std::size_t size = o.rows * o.channels;
  demand("layer norm", device, o.input.type,
         {{"input", o.input, size},
          {"weight", o.weight, o.channels},
          {"bias", o.bias, o.channels},
          {"output", o.output, size},
          {"mean", o.mean, o.rows, Kind::statistic},
          {"inverse_deviation", o.inverse_deviation, o.rows, Kind::statistic}});
  if (o.addend.data == nullptr) return;
  demand("layer norm", device, o.input.type, {{"addend", o.addend, size}, {"sum", o.sum, size}});
}

void check(const LayerNormBackward& o, ddprun::Device device) {
  const std::size_t size = o.rows * o.channels;
  demand("layer norm backward", device, o.input.type,
         {{"input", o.input, size},
          {"weight", o.weight, o.channels},
          {"mean", o.mean, o.rows, Kind::statistic},
          {"inverse_deviation", o.inverse_deviation, o.rows, Kind::statistic},
          {"output_gradient", o.output_gradient, size},
          {"input_gradient", o.input_gradient, size},
          {"weight_gradient", o.weight_gradient, o.channels, Kind::weight_gradient},
          {"bias_gradient", o.bias_gradient, o.channels, Kind::weight_gradient}});
}

void check(const Attention& o, ddprun::Device device) {
  const std::size_t size = o.sequences * o.context * o.heads * o.head_size;
  demand("attention", device, o.projections.type,
         {{"projections", o.projections, 3 * size},
          {"output", o.output, size},
          {"log_sum", o.log_sum, o.sequences * o.heads * o.context, Kind::statistic}});
}

void check(const AttentionBackward& o, ddprun::Device device) {
  const std::size_t size = o.sequences * o.context * o.heads * o.head_size;
  demand("attention backward", device, o.projections.type,
         {{"projections", o.projections, 3 * size},
          {"output", o.output, size},
          {"log_sum", o.log_sum, o.sequences * o.heads * o.context, Kind::statistic},
          {"output_gradient", o.output_gradient, size},
          {"projections_gradient", o.projections_gradient, 3 * size}});
}

void check(const Gelu& o, ddprun::Device device) {
  demand("GELU", device, o.input.type,
         {{"input", o.input, o.elements}, {"output", o.output, o.elements}});
}

void check(const GeluBackward& o, ddprun::Device device) {
  demand("GELU backward", device, o.input.type,
         {{"input", o.input, o.elements},
          {"output_gradient", o.output_gradient, o.elements},
          {"input_gradient", o.input_gradient, o.elements}});
}

void check(const BatchNorm& o, ddprun::Device device) {
  const std::size_t size = o.rows * o.columns;
  demand("batch norm", device, o.input.type,
         {{"input", o.input, size},
          {"scale", o.scale, o.columns},
          {"shift", o.shift, o.columns},
          {"output", o.output, size},
          {"mean", o.mean, o.columns, Kind::statistic},
          {"inverse_deviation", o.inverse_deviation, o.columns, Kind::statistic},
          {"running_mean", o.running_mean, o.columns, Kind::statistic},
          {"running_variance", o.running_variance, o.columns, Kind::statistic}});
}

void check(const BatchNormBackward& o, ddprun::Device device) {
  const std::size_t size = o.rows * o.columns;
  demand("batch norm backward", device, o.input.type,
         {{"input", o.input, size},
          {"scale", o.scale, o.columns},
          {"mean", o.mean, o.columns, Kind::statistic},
          {"inverse_deviation", o.inverse_deviation, o.columns, Kind::statistic},
          {"output_gradient", o.output_gradient, size},
          {"input_gradient", o.input_gradient, size},
          {"scale_gradient", o.scale_gradient, o.columns, Kind::weight_gradient},
          {"shift_gradient", o.shift_gradient, o.columns, Kind::weight_gradient}});
}

void check(const Activation& o, ddprun::Device device) {
  demand("activation", device, o.input.type,
         {{"input", o.input, o.elements}, {"output", o.output, o.elements}});
}

void check(const ActivationBackward& o, ddprun::Device device) {
  demand("activation backward", device, o.output.type,
         {{"output", o.output, o.elements},
          {"output_gradient", o.output_gradient, o.elements},
          {"input_gradient", o.input_gradient, o.elements}});
}

void check(const CrossEntropy& o, ddprun::Device device) {
  demand("cross-entropy", device, o.logits.type,
         {{"logits", o.logits, o.rows * o.columns},
          {"targets", o.targets, o.rows, Kind::tokens},
          {"losses", o.losses, o.rows, Kind::statistic}});
  if (o.classes == 0 || o.classes > o.columns) {
    throw ddprun::Error(ddprun::Errc::usage, "cross-entropy: " + std::to_string(o.classes) +
                                                 " classes in rows of " +
                                                 std::to_string(o.columns) + " columns");
  }
}

void check(const MeanSquaredError& o, ddprun::Device device) {
  demand("mean squared error", device, o.output.type,
         {{"output", o.output, o.rows * o.columns},
          {"targets", o.targets, o.rows * o.columns, Kind::statistic},
          {"losses", o.losses, o.rows, Kind::statistic}});
}

void check(const AddSum& o, ddprun::Device device) {
  demand("sum", device, o.values.type,
         {{"values", o.values, o.elements, Kind::any_float}, {"total", o.total, 1, Kind::total}});
}

void check(const AdamW& o, ddprun::Device device) {
  demand("AdamW", device, o.values.type,
         {{"values", o.values, o.elements},
          {"gradient", o.gradient, o.elements, Kind::weight_gradient},
          {"mean", o.mean, o.elements, Kind::statistic},
          {"square", o.square, o.elements, Kind::statistic}});
  if (o.values.type == DataType::bfloat16) {
    demand("AdamW", device, o.values.type, {{"master", o.master, o.elements, Kind::statistic}});
  }
  if (o.gradient_norm_max > 0) {
    demand("AdamW", device, o.values.type, {{"squared_norm", o.squared_norm, 1, Kind::total}});
  }
  if (o.pace.data != nullptr) {
    constexpr std::size_t kNumbers = sizeof(AdamWPace) / sizeof(double);
    demand("AdamW", device, o.values.type, {{"pace", o.pace, kNumbers, Kind::total}});
  }
}

void check(const Sgd& o, ddprun::Device device) {
  demand("SGD", device, o.values.type,
         {{"values", o.values, o.elements},
          {"gradient", o.gradient, o.elements, Kind::weight_gradient}});
  if (o.values.type == DataType::bfloat16) {
    demand("SGD", device, o.values.type, {{"master", o.master, o.elements, Kind::statistic}});
  }
  if (o.momentum != 0) {
    demand("SGD", device, o.values.type, {{"velocity", o.velocity, o.elements, Kind::statistic}});
  }
}

void check(const Convert& o, ddprun::Device device) {
  demand("conversion", device, o.input.type,
         {{"input", o.input, o.elements, Kind::any_float},
          {"output", o.output, o.elements, Kind::any_float}});
}

void refuse_other_size(const char* what, std::size_t bytes, const Buffer& buffer) {
  if (bytes == buffer.bytes()) return;
  throw ddprun::Error(ddprun::Errc::usage, std::string(what) + ": " + std::to_string(bytes) +
                                               " bytes of the program and " +
                                               std::to_string(buffer.bytes()) + " of the device");
}

}  // namespace trainer
