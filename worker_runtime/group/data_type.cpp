#include <ddprun/buffer.hpp>

namespace ddprun {

const char* to_string(DataType type) noexcept {
  switch (type) {
    case DataType::float32:
      return "float32";
    case DataType::float64:
      return "float64";
    case DataType::float16:
      return "float16";
    case DataType::bfloat16:
      return "bfloat16";
    case DataType::int32:
      return "int32";
    case DataType::int64:
      return "int64";
    case DataType::uint8:
      return "uint8";
  }
  return "unknown";
}

const char* to_string(ReduceOp op) noexcept {
  switch (op) {
    case ReduceOp::sum:
      return "sum";
    case ReduceOp::average:
      return "average";
    case ReduceOp::product:
      return "product";
    case ReduceOp::min:
      return "min";
    case ReduceOp::max:
      return "max";
  }
  return "unknown";
}

}  // namespace ddprun
