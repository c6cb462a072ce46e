// Process groups of ranks that are threads of this process, each with a fake CUDA device.
#pragma once

#include "tests/support/emulated_kernels.hpp"
#include "tests/support/fake_cuda.hpp"
#include "tests/support/fake_nccl.hpp"
#include "tests/support/fake_nccl_memory.hpp"
#include "worker_runtime/backends/host/in_process/in_process_backend.hpp"
#include "worker_runtime/backends/nccl/device_table.hpp"
#include "worker_runtime/backends/nccl/nccl_backend.hpp"
#include "worker_runtime/group/process_group_impl.hpp"
#include <ddprun/deadline.hpp>
#include <ddprun/process_group.hpp>

#include <doctest/doctest.h>

#include <chrono>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

namespace ddprun::test {

/// All ranks use this device, which the ranks of real NCCL communicators cannot do. It is not that
/// of new threads.
inline constexpr Device kDevice{.kind = Device::Kind::cuda, .index = 1};

inline nccl::Libraries fake_libraries() {
  return {fake_nccl, &fake_cuda(), &emulated_kernels(), &emulated_exam()};
}

inline const nccl::DeviceTable& fake_device_table() {
  static const nccl::Libraries libraries = fake_libraries();
  static const nccl::DeviceTable table = nccl::make_device_table(libraries);
  return table;
}

inline std::vector<ProcessGroup> device_ranks(
    int ranks, const GroupOptions& options = {},
    const nccl::DeviceTable& table = fake_device_table()) {
  std::vector<std::unique_ptr<Backend>> backends;
  int rank = 0;
  for (auto& host : create_in_process_backends(ranks, options)) {
    std::unique_ptr<WatchfulBackend> watchful(dynamic_cast<WatchfulBackend*>(host.release()));
    backends.push_back(std::make_unique<nccl::NcclBackend>(
        std::move(watchful), table,
        nccl::NcclBackend::Place{.device = {.rank = rank++,
                                            .ranks = ranks,
                                            .device = kDevice,
                                            .group = options.name,
                                            .log = options.log}}));
  }
  return create_in_process_groups(std::move(backends), options);
}

/// A stream of the fake. Sets the device of the thread.
class Stream {
 public:
  Stream() {
    fake_cuda().set_device(kDevice.index);
    fake_cuda().stream_create(&stream_, cudaStreamNonBlocking);
  }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream() { fake_cuda().stream_destroy(stream_); }

  cudaStream_t get() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

/// Waits until threads that hung have freed their resources.
inline bool are_devices_free() {
  const auto deadline = Deadline::after(std::chrono::seconds(60));
  while (fake_cuda_objects() > 0 && !deadline.passed()) std::this_thread::yield();
  return fake_cuda_objects() == 0;
}

/// Checks at its destruction that the test left nothing on the devices, and resets the faults.
class CleanDevices {
 public:
  CleanDevices() = default;
  CleanDevices(const CleanDevices&) = delete;
  CleanDevices& operator=(const CleanDevices&) = delete;
  ~CleanDevices() {
    nccl_faults().take_back();
    cuda_faults().take_back();
    CHECK(fake_cuda_objects() == 0);
    CHECK(fake_communicators() == 0);
    CHECK(fake_registered() == 0);
    CHECK(fake_misuses() == misuses_);
    CHECK(fake_strays() == strays_);
  }

 private:
  const int misuses_ = fake_misuses();
  const int strays_ = fake_strays();
};

/// Returns `data` as a buffer on a device.
template <typename Element>
Buffer on_device(std::vector<Element>& data, Device device = kDevice) {
  Buffer buffer = as_buffer(data.data(), data.size());
  buffer.device = device;
  return buffer;
}

}  // namespace ddprun::test
