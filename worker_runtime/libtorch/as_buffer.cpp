#include <ddprun/error.hpp>
#include <ddprun/torch/as_buffer.hpp>

#include <optional>

namespace ddprun::torch {

namespace {

[[noreturn]] void refuse(const std::string& what, const std::string& reason) {
  throw Error(Errc::usage, what + " " + reason);
}

std::optional<DataType> data_type(at::ScalarType type) {
  switch (type) {
    case at::kFloat:
      return DataType::float32;
    case at::kDouble:
      return DataType::float64;
    case at::kHalf:
      return DataType::float16;
    case at::kBFloat16:
      return DataType::bfloat16;
    case at::kInt:
      return DataType::int32;
    case at::kLong:
      return DataType::int64;
    case at::kByte:
      return DataType::uint8;
    default:
      return std::nullopt;
  }
}

Device device_of(const at::Tensor& tensor, const std::string& what) {
  if (tensor.is_cpu()) return {};
  if (tensor.is_cuda())
    return {.kind = Device::Kind::cuda, .index = static_cast<int>(tensor.get_device())};
  refuse(what, "is on device " + tensor.device().str() + ": collectives reach the CPU and CUDA");
}

/// Returns the tensor's memory as bytes.
Buffer as_bytes(const at::Tensor& tensor, const std::string& what) {
  if (!tensor.defined()) refuse(what, "is undefined");
  if (tensor.layout() != at::kStrided) refuse(what, "is sparse: collectives need dense memory");
  if (!tensor.is_non_overlapping_and_dense()) {
    refuse(what, "has gaps or elements that share memory: make it contiguous() first");
  }
  const Device device = device_of(tensor, what);
  return {tensor.data_ptr(), tensor.nbytes(), DataType::uint8, device};
}

Buffer typed(Buffer bytes, const at::Tensor& tensor, DataType type) {
  return {bytes.data, static_cast<std::size_t>(tensor.numel()), type, bytes.device};
}

}  // namespace

Buffer as_buffer(const at::Tensor& tensor, const std::string& what) {
  const Buffer bytes = as_bytes(tensor, what);
  const auto type = data_type(tensor.scalar_type());
  if (!type) {
    refuse(what, std::string("is of type ") + at::toString(tensor.scalar_type()) +
                     ", which collectives cannot combine");
  }
  return typed(bytes, tensor, *type);
}

Buffer as_copied_buffer(const at::Tensor& tensor, const std::string& what) {
  const Buffer bytes = as_bytes(tensor, what);
  const auto type = data_type(tensor.scalar_type());
  return type ? typed(bytes, tensor, *type) : bytes;
}

}  // namespace ddprun::torch
