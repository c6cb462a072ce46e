// The check of a device, with the fake devices and emulated kernels: faults are found and
// attributed to it.
#include "tests/support/device_ranks.hpp"
#include "tests/support/rank_threads.hpp"
#include "tests/support/temporary_folder.hpp"
#include "worker_runtime/cuda/device_exam.hpp"
#include "worker_runtime/preflight/exchange.hpp"
#include "worker_runtime/preflight/gpu_exam.hpp"
#include "worker_runtime/preflight/node_check.hpp"
#include <ddprun/error.hpp>

#include <doctest/doctest.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

namespace preflight_device_test {

using namespace ddprun;
using namespace ddprun::preflight;
using namespace ddprun::test;

namespace {

constexpr std::size_t kBytes = 64 << 10;
constexpr unsigned kSize = 40;  // not a multiple of a kernel's tile

CudaDevice device_at(int index, const nccl::DeviceTable& table = fake_device_table()) {
  return {.table = &table, .device = {.kind = Device::Kind::cuda, .index = index}};
}

/// The GPUs of the machine do not matter.
constexpr const char* kNoNvml = "libnvidia-ml-missing.so.1";

Exam look_at(const CudaDevice& found, Progress& progress, const char* nvml = kNoNvml) {
  const int index = found.device.index;
  return examine_gpu(found,
                     {.memory_bytes = kBytes,
                      .product_size = kSize,
                      .seconds = [index] { return fake_seconds(index); },
                      .nvml = nvml},
                     progress);
}

std::string problem_of(const CudaDevice& found) {
  Progress progress;
  try {
    return look_at(found, progress).problem;
  } catch (const Error& error) {
    return std::string(to_string(error.code())) + ": " + error.what();
  }
}

/// The emulated product with its last element too large by one.
cudaError_t multiply_wrongly(const float* left, const float* right, float* product, unsigned n,
                             cudaStream_t stream) {
  emulated_exam().multiply(left, right, product, n, stream);
  launch_on(stream, [=] { product[n * n - 1] += 1; });
  return cudaSuccess;
}

using LookOf = std::function<Exam(int rank, Progress& progress)>;

Exam look_at_own(int rank, Progress& progress) {
  return look_at(device_at(rank), progress);
}

/// Like the reports of two workers about the two fake devices.
std::vector<PreflightReport> reports_of_both(
    const LookOf& look = look_at_own, std::chrono::seconds limit = std::chrono::seconds(60)) {
  std::vector<PreflightReport> reports(2);
  run_ranks(2, [&](ProcessGroup& group) {
    const NodeCheck check{
        .examine = [look, rank = group.rank()](Progress& now) { return look(rank, now); },
        .connect = [&](const Exam&) -> ProcessGroup { throw Error(Errc::closed, "far enough"); },
        .settings = {.exam_limit = limit}};
    auto& report = reports[static_cast<std::size_t>(group.rank())];
    try {
      report = check_node(group, check).report;
    } catch (const Error&) {
      report.remark = "came to the exchange";
    }
  });
  return reports;
}

}  // namespace

TEST_SUITE("preflight of a device") {
  TEST_CASE("device preflight: a healthy device is measured and keeps no memory") {
    const CleanDevices clean;
    Progress progress;
    const auto exam = look_at(device_at(1), progress);
    CHECK(exam.problem.empty());
    CHECK(exam.name ==
          "CUDA device 1 (Fake, 0000:01:00.0, GPU-a1a1a1a1-a1a1-a1a1-a1a1-a1a1a1a1a1a1)");
    CHECK(exam.device == Device{Device::Kind::cuda, 1});
    // The fake needs a second for each kernel, and one to detect their end.
    CHECK(exam.memory_bytes_per_second == 2.0 * kBytes / 3);
    CHECK(exam.product_flops == 2.0 * kSize * kSize * kSize / 2);
    CHECK(progress.doing() == ": asking the driver for its errors");
  }

  TEST_CASE("device preflight: errors that the driver reports are added") {
    const CleanDevices clean;
    const TemporaryFolder folder;
    const std::string file = folder / "gpus";
    std::ofstream(file) << "gpu 0000:01:00.0 1 0 0 128\nprocess 0000:01:00.0 0 1 -1\n"
                           "process 0000:01:00.0 4194305 2147483648 -1\n";  // above the largest pid
    ::setenv("DDPRUN_FAKE_NVML", file.c_str(), 1);
    Progress progress;
    const char* const fake = DDPRUN_BIN_DIR "/fake_nvml/libnvidia-ml.so.1";
    const auto faulty = look_at(device_at(1), progress, fake);
    CHECK(faulty.problem.starts_with("its memory has had 1 uncorrectable ECC error since "));
    CHECK(faulty.remark ==
          "its clocks are reduced: power brake; process 4194305 holds 2.0 GiB of its memory");
    CHECK(faulty.memory_bytes_per_second > 0);
    const auto other = look_at(device_at(0), progress, fake);
    CHECK(other.problem.empty());
    CHECK(other.remark.empty());
    ::unsetenv("DDPRUN_FAKE_NVML");
  }

  TEST_CASE("device preflight: a stuck bit is found with its position") {
    const CleanDevices clean;
    cuda_faults().forgetful = 0;
    const auto problem = problem_of(device_at(0));
    CHECK(problem.starts_with("cuda: its memory does not keep what is written: 1 of "));
    CHECK(problem_of(device_at(1)).empty());
  }

  TEST_CASE("device preflight: a wrong element of a product is reported with its row") {
    const CleanDevices clean;
    static const cuda::ExamKernels kernels{
        .fill = emulated_exam().fill, .check = emulated_exam().check, .multiply = multiply_wrongly};
    static const nccl::Libraries libraries{fake_nccl, &fake_cuda(), &emulated_kernels(), &kernels};
    static const auto table = nccl::make_device_table(libraries);
    CHECK(problem_of(device_at(0, table)) ==
          "cuda: a matrix product of size 40 is wrong in row 39");
  }

  TEST_CASE("device preflight: less memory is tested if other processes use it") {
    const CleanDevices clean;
    static std::size_t room = 0;
    static auto calls = fake_cuda();
    calls.allocate = [](void** memory, std::size_t bytes) {
      if (bytes > room) return cudaErrorMemoryAllocation;
      return fake_cuda().allocate(memory, bytes);
    };
    static const nccl::Libraries libraries{fake_nccl, &calls, &emulated_kernels(),
                                           &emulated_exam()};
    static const auto table = nccl::make_device_table(libraries);
    room = cuda::kExamBytesMin;
    Progress progress;
    const auto exam = examine_gpu(
        device_at(0, table),
        {.memory_bytes = 2 * cuda::kExamBytesMin, .product_size = kSize, .nvml = kNoNvml},
        progress);
    CHECK(exam.memory_bytes_per_second > 0);
    room = kBytes - 1;
    CHECK(problem_of(device_at(0, table)) ==
          "cuda: cudaMalloc of 65536 bytes: an error of the fake");
  }

  TEST_CASE("device preflight: only the unresponsive one of several devices is reported") {
    const CleanDevices clean;
    cuda_faults().silent = 1;
    // The check of the other one is nearly complete.
    const LookOf look = [](int rank, Progress& now) {
      return rank == 1 ? look_at_own(rank, now) : Exam{.device = kDevice};
    };
    const auto reports = reports_of_both(look, std::chrono::seconds(2));
    CHECK(reports[0].problem.empty());
    CHECK(reports[1].device.starts_with("CUDA device 1 (Fake, 0000:01:00.0, "));
    CHECK(reports[1].problem.starts_with("it has not answered after "));
    CHECK(reports[1].problem.ends_with("(2.0 s allowed): writing to its memory and reading it"));
    cuda_faults().take_back();
    CHECK(are_devices_free());
  }

  TEST_CASE("device preflight: a device below half the speed of others is reported") {
    const CleanDevices clean;
    cuda_faults().slow = 0;
    const auto reports = reports_of_both();
    CHECK(reports[0].problem.starts_with("it reads and writes its memory at "));
    CHECK(reports[0].problem.find("; it multiplies matrices at ") != std::string::npos);
    CHECK(reports[1].problem.empty());
    CHECK(reports[1].remark.empty());
  }

  TEST_CASE("device preflight: equally fast devices take part in the exchange") {
    const CleanDevices clean;
    for (const auto& report : reports_of_both()) CHECK(report.remark == "came to the exchange");
  }

  TEST_CASE("device preflight: a failed all-reduce of all devices is reported") {
    const CleanDevices clean;
    const ExchangeSettings settings{
        .device = kDevice, .elements = 1000, .limit = std::chrono::seconds(60)};
    run_ranks(device_ranks(2), [&](ProcessGroup& group) {
      const auto exchange = exchange_with_all(group, settings);
      CHECK(exchange.bytes_per_second > 0);
      CHECK(exchange.problem.empty());
    });
    nccl_faults().collective = ncclSystemError;
    run_ranks(device_ranks(2), [&](ProcessGroup& group) {
      const auto exchange = exchange_with_all(group, settings);
      CHECK(exchange.bytes_per_second == 0);
      CHECK(exchange.is_own_problem == (group.rank() == 1));
      CHECK(exchange.problem.find("all_reduce(1000 x float32, sum)") != std::string::npos);
    });
  }
}

}  // namespace preflight_device_test
