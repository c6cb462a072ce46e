// LibTorch's tensors as the buffers that ddprun's collectives move. Any thread may call.
#pragma once

#include <ddprun/buffer.hpp>

#include <ATen/core/Tensor.h>

#include <string>

namespace ddprun::torch {

/// A tensor's memory, of any shape and memory format as long as its elements lie there without
/// gaps. Nothing is copied: the tensor must live until the buffer's Work is done. `what` stands in
/// errors, "parameter \"fc.weight\"". Throws Error{Errc::usage} for a tensor with gaps, one that is
/// neither on the CPU nor on a CUDA device, and for types of elements that collectives cannot
/// combine (complex, bool, ...).
Buffer as_buffer(const at::Tensor& tensor, const std::string& what = "tensor");

/// The same for what is only copied, as broadcast and all-gather do: those other types come as
/// bytes.
Buffer as_copied_buffer(const at::Tensor& tensor, const std::string& what = "tensor");

}  // namespace ddprun::torch
