// The look at one device before a program uses it: it answers, its memory keeps what is written, a
// matrix product is right bit for bit. Blocks, for good if the driver does; the caller has a thread
// for that.
#pragma once

#include "worker_runtime/cuda/cuda_calls.hpp"
#include "worker_runtime/cuda/exam_kernels.hpp"

#include <cstddef>
#include <functional>
#include <string>

namespace ddprun::cuda {

struct DeviceExam {
  int device = 0;
  /// Of memory: tens of milliseconds, and little of what a device has. Where there is less, half
  /// of it and so on is taken, and kExamBytesMin at least.
  std::size_t memory_bytes = std::size_t{4} << 30;
  unsigned product_size = 2048;  ///< of the matrices: all multiprocessors, for milliseconds
  /// Hears who the device is, as far as that is known, and what is done now.
  std::function<void(const std::string& device, const std::string& doing)> note;
  std::function<double()> seconds;  ///< a clock
};

inline constexpr std::size_t kExamBytesMin = std::size_t{64} << 20;

struct DeviceFigures {
  std::string name;
  double memory_bytes_per_second = 0;
  double product_flops = 0;
};

/// Throws Error{Errc::cuda} with what is amiss.
DeviceFigures examine(const CudaCalls& calls, const ExamKernels& kernels, const DeviceExam& exam);

}  // namespace ddprun::cuda
