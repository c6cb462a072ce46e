// Data type in which the gradient of a parameter is stored and reduced. Pure.
#pragma once

#include <ddprun/reducer_options.hpp>

namespace ddprun {

constexpr bool is_half(DataType type) {
  return type == DataType::float16 || type == DataType::bfloat16;
}

constexpr DataType gradient_type(DataType values, const ReducerOptions& options) {
  return options.accumulate_in_float32 && is_half(values) ? DataType::float32 : values;
}

}  // namespace ddprun
