#include "worker_runtime/cuda/device_exam.hpp"

#include "worker_runtime/cuda/device_objects.hpp"
#include "worker_runtime/cuda/exact_product.hpp"
#include <ddprun/error.hpp>

#include <algorithm>
#include <array>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <vector>

namespace ddprun::cuda {

namespace {

// Number of measurements, of which the best counts: the first one wakes the device.
constexpr std::uint64_t kRounds = 4;

std::string address_of(const CudaCalls& calls, int device) {
  std::array<char, 32> bus{};
  const auto length = static_cast<int>(bus.size());
  check(calls, calls.get_pci_bus_id(bus.data(), length, device), "cudaDeviceGetPCIBusId");
  return bus.data();
}

std::string name_of(const CudaCalls& calls, int device, const std::string& address) {
  std::string name = "CUDA device " + std::to_string(device);
  cudaDeviceProp properties{};
  check(calls, calls.get_properties(&properties, device), "cudaGetDeviceProperties");
  name += " (" + std::string(properties.name) + ", " + address + ", GPU-";
  for (std::size_t i = 0; i < sizeof properties.uuid.bytes; ++i) {
    char digits[4];
    std::snprintf(digits, sizeof digits, "%02x",
                  static_cast<unsigned>(static_cast<unsigned char>(properties.uuid.bytes[i])));
    if (i == 4 || i == 6 || i == 8 || i == 10) name += '-';
    name += digits;
  }
  return name + ")";
}

/// State of an examination: resources and measurements.
class Examination {
 public:
  Examination(const CudaCalls& calls, const ExamKernels& kernels, const DeviceExam& exam)
      : calls_(calls),
        kernels_(kernels),
        exam_(exam),
        stream_(calls, exam.device),
        first_(calls),
        second_(calls),
        third_(calls) {}

  double memory() {
    const std::size_t bytes = allocate();
    auto* const words = static_cast<std::uint64_t*>(first_.at_least(bytes));
    auto* const faults =
        static_cast<PatternFault*>(second_.at_least(kExamFaults * sizeof(PatternFault)));
    const std::size_t count = bytes / sizeof(std::uint64_t);
    double best = 0;
    for (std::uint64_t round = 0; round < kRounds; ++round) {
      const double seconds = time([&] {
        check(calls_, kernels_.fill(words, count, round, stream_.get()), "filling its memory");
        check(calls_, kernels_.check(words, count, round, faults, stream_.get()),
              "reading its memory");
      });
      judge(faults, bytes);
      best = std::max(best, 2.0 * static_cast<double>(bytes) / seconds);
    }
    return best;
  }

  double product() {
    const unsigned n = exam_.product_size;
    const auto factors = make_factors(n);
    const std::size_t bytes = factors.left.size() * sizeof(float);
    auto* const left = static_cast<float*>(first_.at_least(bytes));
    auto* const right = static_cast<float*>(second_.at_least(bytes));
    auto* const product = static_cast<float*>(third_.at_least(bytes));
    copy(left, factors.left.data(), bytes);
    copy(right, factors.right.data(), bytes);
    std::vector<float> result(factors.left.size());
    double best = 0;
    for (std::uint64_t round = 0; round < kRounds; ++round) {
      const double seconds = time([&] {
        check(calls_, kernels_.multiply(left, right, product, n, stream_.get()),
              "multiplying matrices");
      });
      copy(result.data(), product, bytes);
      if (const auto row = wrong_row(factors, result)) {
        throw Error(Errc::cuda, "a matrix product of size " + std::to_string(n) +
                                    " is wrong in row " + std::to_string(*row));
      }
      const double size = n;
      best = std::max(best, 2.0 * size * size * size / seconds);
    }
    return best;
  }

 private:
  /// Allocates memory, halving the size on failure; returns the size.
  std::size_t allocate() {
    std::size_t bytes = std::max(exam_.memory_bytes, sizeof(std::uint64_t));
    while (true) {
      try {
        first_.at_least(bytes);
        return bytes;
      } catch (const Error&) {
        if (bytes <= kExamBytesMin) throw;
        bytes = std::max(bytes / 2, kExamBytesMin);
      }
    }
  }

  void judge(const PatternFault* on_device, std::size_t bytes) {
    std::vector<PatternFault> faults(kExamFaults);
    copy(faults.data(), on_device, faults.size() * sizeof(PatternFault));
    std::uint64_t wrong = 0;
    const PatternFault* first = nullptr;
    for (const auto& fault : faults) {
      if (fault.wrong == 0) continue;
      wrong += fault.wrong;
      if (first == nullptr || fault.first < first->first) first = &fault;
    }
    if (first == nullptr) return;
    char text[200];
    std::snprintf(text, sizeof text,
                  "its memory does not keep what is written: %" PRIu64 " of %" PRIu64
                  " words have changed, the first at byte %" PRIu64 " to %016" PRIx64,
                  wrong, static_cast<std::uint64_t>(bytes / sizeof(std::uint64_t)),
                  static_cast<std::uint64_t>(first->first * sizeof(std::uint64_t)), first->found);
    throw Error(Errc::cuda, text);
  }

  template <typename Work>
  double time(const Work& work) {
    wait();
    const double start = exam_.seconds();
    work();
    wait();
    return std::max(exam_.seconds() - start, 1e-9);
  }

  void copy(void* to, const void* from, std::size_t bytes) {
    check(calls_, calls_.copy_async(to, from, bytes, cudaMemcpyDefault, stream_.get()),
          "cudaMemcpy of " + std::to_string(bytes) + " bytes");
    wait();
  }

  void wait() { check(calls_, calls_.stream_synchronize(stream_.get()), "work on the device"); }

  const CudaCalls& calls_;
  const ExamKernels& kernels_;
  const DeviceExam& exam_;
  Stream stream_;
  Scratch first_;
  Scratch second_;
  Scratch third_;
};

}  // namespace

DeviceFigures examine(const CudaCalls& calls, const ExamKernels& kernels, const DeviceExam& exam) {
  DeviceFigures figures{.name = "CUDA device " + std::to_string(exam.device)};
  exam.note(figures.name, ": reading its properties");
  figures.address = address_of(calls, exam.device);
  figures.name = name_of(calls, exam.device, figures.address);
  exam.note(figures.name, ": initialising CUDA");
  const OnDevice here(calls, exam.device);
  Examination examination(calls, kernels, exam);
  exam.note(figures.name, ": writing to its memory and reading it");
  figures.memory_bytes_per_second = examination.memory();
  exam.note(figures.name, ": multiplying matrices");
  figures.product_flops = examination.product();
  return figures;
}

}  // namespace ddprun::cuda
