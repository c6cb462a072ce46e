// Conversion of LibTorch tensors to buffers for collectives. Thread-safe.
#pragma once

#include <ddprun/buffer.hpp>

#include <ATen/core/Tensor.h>

#include <string>

namespace ddprun::torch {

/// Returns a view of a tensor's memory. The tensor may have any shape and any memory format
/// without gaps, and must live until the buffer's Work has ended. `what` is its name in errors,
/// such as "parameter \"fc.weight\"". Throws Error{Errc::usage} for tensors with gaps, devices
/// other than the CPU and CUDA, and element types that collectives cannot combine (complex, bool,
/// ...).
Buffer as_buffer(const at::Tensor& tensor, const std::string& what = "tensor");

/// Like as_buffer(), for collectives that only copy, such as broadcast and all-gather. Element
/// types that collectives cannot combine are viewed as bytes.
Buffer as_copied_buffer(const at::Tensor& tensor, const std::string& what = "tensor");

}  // namespace ddprun::torch
