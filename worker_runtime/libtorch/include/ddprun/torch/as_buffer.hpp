// LibTorch tensors as buffers for collectives. Any thread may call.
#pragma once

#include <ddprun/buffer.hpp>

#include <ATen/core/Tensor.h>

#include <string>

namespace ddprun::torch {

/// Returns a view of a tensor's memory. The tensor may have any shape and memory format without
/// gaps, and must live until the buffer's Work has ended. `what`: name in errors, such as
/// "parameter \"fc.weight\"". Throws Error{Errc::usage} for a tensor with gaps, for devices other
/// than the CPU and CUDA, and for element types that collectives cannot combine (complex, bool,
/// ...).
Buffer as_buffer(const at::Tensor& tensor, const std::string& what = "tensor");

/// Like as_buffer(), for collectives that only copy, such as broadcast and all-gather: other
/// element types are viewed as bytes.
Buffer as_copied_buffer(const at::Tensor& tensor, const std::string& what = "tensor");

}  // namespace ddprun::torch
