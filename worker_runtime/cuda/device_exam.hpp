// Examination of a device before a program uses it: the device responds, its memory keeps data, and
// a matrix product is exact. Blocks, without limit if the driver hangs, so it needs a separate
// thread.
#pragma once

#include "worker_runtime/cuda/cuda_calls.hpp"
#include "worker_runtime/cuda/exam_kernels.hpp"

#include <cstddef>
#include <functional>
#include <string>

namespace ddprun::cuda {

struct DeviceExam {
  int device = 0;
  /// Examined memory, for tens of milliseconds. Halved while the allocation fails, down to
  /// kExamBytesMin.
  std::size_t memory_bytes = std::size_t{4} << 30;
  unsigned product_size =
      2048;  ///< rows of the matrices; occupies all multiprocessors for milliseconds
  /// Called with the device, as far as known, and the current step.
  std::function<void(const std::string& device, const std::string& doing)> note;
  std::function<double()> seconds;  ///< a clock
};

inline constexpr std::size_t kExamBytesMin = std::size_t{64} << 20;

struct DeviceFigures {
  std::string name;
  std::string address;  ///< on the PCI bus
  double memory_bytes_per_second = 0;
  double product_flops = 0;
};

/// Throws Error{Errc::cuda} if the device is faulty.
DeviceFigures examine(const CudaCalls& calls, const ExamKernels& kernels, const DeviceExam& exam);

}  // namespace ddprun::cuda
