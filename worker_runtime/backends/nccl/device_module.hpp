// The border between the worker runtime and the module that does collectives on CUDA devices, a
// shared library of its own, so that a worker without a GPU loads nothing of CUDA. As in
// ../module/module.hpp plain data alone crosses it.
#pragma once

#include "worker_runtime/backends/backend.hpp"
#include "worker_runtime/backends/device_queue.hpp"
#include "worker_runtime/backends/module/module.hpp"

#include <array>
#include <cstddef>
#include <cstdint>

namespace ddprun::nccl {

/// Of everything in this file and in module.hpp. A module of another version is not used.
inline constexpr std::uint32_t kModuleVersion = 2500 + module::kVersion;

/// What the ranks of a group meet by: one makes it, all have it.
inline constexpr std::size_t kTokenBytes = 128;
using Token = std::array<std::uint8_t, kTokenBytes>;

/// `group` lives during create() only, `context` as long as what it creates.
struct DeviceMember {
  int rank = 0;
  int ranks = 1;
  int device = 0;
  const char* group = "";
  /// False, after filling `failure` in, once the group has failed elsewhere. Asked while waiting.
  bool (*look)(const void* context, module::Failure& failure) noexcept = nullptr;
  const void* context = nullptr;
};

/// Longer names of a device are cut.
inline constexpr std::size_t kDeviceNameMax = 256;

/// A look at a device, cuda::DeviceExam. `note` hears what is done now, while examine() goes on.
struct DeviceExamOrder {
  int device = 0;
  std::size_t memory_bytes = 0;  ///< 0: what is good for a device
  unsigned product_size = 0;     ///< 0: what is good for a device
  void (*note)(const void* context, const char* device, const char* doing) noexcept = nullptr;
  double (*seconds)(const void* context) noexcept = nullptr;  ///< a clock
  const void* context = nullptr;
};

struct DeviceExamResult {
  char name[kDeviceNameMax] = {};
  double memory_bytes_per_second = 0;
  double product_flops = 0;
};

/// What DeviceMemory does. `release` needs no object: memory may outlive its group.
struct DeviceMemoryTable {
  void* (*create)(const void* libraries, int device, module::Failure& failure) noexcept = nullptr;
  void (*destroy)(void* memory) noexcept = nullptr;
  void* (*allocate)(void* memory, std::size_t bytes, module::Failure& failure) noexcept = nullptr;
  void (*release)(const void* libraries, int device, void* allocated) noexcept = nullptr;
  bool (*convert)(void* memory, const DevicePiece* pieces, std::size_t count, DataType from,
                  DataType to, double scale, void* stream,
                  module::Failure& failure) noexcept = nullptr;
  bool (*add)(void* memory, const DevicePiece* pieces, std::size_t count, DataType from,
              void* stream, module::Failure& failure) noexcept = nullptr;
  bool (*zero)(void* memory, void* allocated, std::size_t bytes, void* stream,
               module::Failure& failure) noexcept = nullptr;
  bool (*order)(void* memory, void* before, void* after,
                module::Failure& failure) noexcept = nullptr;
  bool (*copy)(void* memory, void* to, const void* from, std::size_t bytes, std::int64_t left,
               module::Failure& failure) noexcept = nullptr;
};

/// What DeviceCollectives::allocate() gives out. It may outlive them.
struct RegisteredMemoryTable {
  void* (*create)(void* collectives, std::size_t bytes,
                  module::Failure& failure) noexcept = nullptr;
  void* (*data)(const void* memory) noexcept = nullptr;
  void (*destroy)(void* memory) noexcept = nullptr;
};

/// Functions that return a bool or a pointer say false or null after filling `failure` in; `left`
/// is as in module.hpp. `libraries` is passed to those that have no object yet.
struct DeviceTable {
  std::uint32_t version = kModuleVersion;
  const void* libraries = nullptr;
  /// Fills `devices` in: how many this process can use, at least one. Errc::usage: there is none to
  /// be seen; another: CUDA does not work.
  bool (*find_devices)(const void* libraries, int& devices,
                       module::Failure& failure) noexcept = nullptr;
  bool (*find_nccl)(const void* libraries, module::Failure& failure) noexcept = nullptr;
  /// Blocks, for good if the device does not answer. The failure is what is amiss with it.
  bool (*examine)(const void* libraries, const DeviceExamOrder& order, DeviceExamResult& result,
                  module::Failure& failure) noexcept = nullptr;
  bool (*make_token)(const void* libraries, Token& token,
                     module::Failure& failure) noexcept = nullptr;
  void* (*create)(const void* libraries, const DeviceMember& member,
                  module::Failure& failure) noexcept = nullptr;
  bool (*connect)(void* collectives, const Token& token, std::int64_t left,
                  module::Failure& failure) noexcept = nullptr;
  void* (*mark)(void* collectives, void* stream, module::Failure& failure) noexcept = nullptr;
  bool (*hold)(void* collectives, void* stream, std::uint64_t launches,
               module::Failure& failure) noexcept = nullptr;
  bool (*launch)(void* collectives, const Operation& operation, std::int64_t left,
                 module::Failure& failure) noexcept = nullptr;
  bool (*ended)(void* collectives, std::uint64_t& launches,
                module::Failure& failure) noexcept = nullptr;
  bool (*capture_of)(void* collectives, void* stream, std::uint64_t& capture,
                     module::Failure& failure) noexcept = nullptr;
  bool (*capture)(void* collectives, const Operation& operation, void* stream, std::int64_t left,
                  std::uint64_t& call, module::Failure& failure) noexcept = nullptr;
  bool (*hold_captured)(void* collectives, void* stream, std::uint64_t capture, std::uint64_t call,
                        module::Failure& failure) noexcept = nullptr;
  bool (*watch)(void* collectives, module::Failure& failure) noexcept = nullptr;
  bool (*await)(void* collectives, void* mark, std::int64_t left,
                module::Failure& failure) noexcept = nullptr;
  void (*finish)(void* collectives) noexcept = nullptr;
  void (*abort)(void* collectives, const char* reason) noexcept = nullptr;
  void (*destroy)(void* collectives) noexcept = nullptr;
  DeviceMemoryTable memory = {};
  RegisteredMemoryTable registered = {};
};

/// The one function that the module exports. Null after filling `failure` in, if it cannot be
/// used.
using DeviceEntry = const DeviceTable* (*)(module::Failure& failure);
inline constexpr char kDeviceEntryName[] = "ddprun_device_module";

}  // namespace ddprun::nccl
