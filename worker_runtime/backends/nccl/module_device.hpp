// DeviceQueue on the CUDA module; ranks connect through the host backend.
#pragma once

#include "worker_runtime/backends/backend.hpp"
#include "worker_runtime/backends/device_queue.hpp"
#include "worker_runtime/backends/nccl/device_module.hpp"
#include <ddprun/deadline.hpp>
#include <ddprun/log.hpp>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>

namespace ddprun::nccl {

class ModuleDevice final : public DeviceQueue {
 public:
  struct Place {
    int rank = 0;
    int ranks = 1;
    Device device = {.kind = Device::Kind::cuda, .index = 0};  ///< device of this rank
    std::string group;
    Log log = {};  ///< for unavailable features
  };

  /// `host` and `table` must outlive this object. `stall_reason` behaves like
  /// Backend::stall_reason().
  ModuleDevice(WatchfulBackend& host, const DeviceTable& table, Place place,
               std::function<std::string()> stall_reason);
  ~ModuleDevice() override;

  const Device& device() const override { return place_.device; }
  void* mark(void* stream) override;
  void launch(const Operation& operation, Deadline deadline) override;
  std::uint64_t ended() override;
  std::uint64_t capture_of(void* stream) override;
  std::uint64_t capture(const Operation& operation, void* stream, Deadline deadline) override;
  void watch() override;
  void hold_captured(void* stream, std::uint64_t capture, std::uint64_t call) override;
  void hold(void* stream, std::uint64_t launches) override;
  std::shared_ptr<void> allocate(std::size_t bytes) override;
  std::shared_ptr<void> allocate_registered(std::size_t bytes) override;
  void convert(std::span<const DevicePiece> pieces, DataType from, DataType to, double scale,
               void* stream) override;
  void add(std::span<const DevicePiece> pieces, DataType from, void* stream) override;
  void zero(void* memory, std::size_t bytes, void* stream) override;
  void order(void* before, void* after) override;
  void await(void* mark, Deadline deadline) override;
  void copy(void* to, const void* from, std::size_t bytes, Deadline deadline) override;

  /// Ends with all ranks, or after a failure.
  void finish() noexcept;
  void abort(const std::string& reason) noexcept;

 private:
  void* collectives();
  void* memory();
  void connect(Deadline deadline);
  [[noreturn]] void fail(const module::Failure& failure);
  static bool look(const void* context, module::Failure& failure) noexcept;

  WatchfulBackend& host_;
  const DeviceTable& table_;
  const Place place_;
  const std::function<std::string()> stall_reason_;
  std::mutex making_;
  std::atomic<void*> collectives_ = nullptr;  ///< created with the first device buffer
  std::atomic<void*> memory_ = nullptr;
  bool is_connected_ = false;
  std::atomic<bool> has_failed_ = false;
};

}  // namespace ddprun::nccl
