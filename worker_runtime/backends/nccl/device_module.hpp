// Interface between the worker runtime and its module for CUDA devices, a shared library, so that
// workers without a GPU do not load CUDA. As in ../module/module.hpp, only plain data crosses it.
#pragma once

#include "worker_runtime/backends/backend.hpp"
#include "worker_runtime/backends/device_queue.hpp"
#include "worker_runtime/backends/module/module.hpp"

#include <array>
#include <cstddef>
#include <cstdint>

namespace ddprun::nccl {

/// Version of this file and module.hpp. Modules of other versions are refused.
inline constexpr std::uint32_t kModuleVersion = 2600 + module::kVersion;

/// NCCL's unique id: one rank creates it, all ranks connect with it.
inline constexpr std::size_t kTokenBytes = 128;
using Token = std::array<std::uint8_t, kTokenBytes>;

/// `group` is valid during create(), `context` as long as the created object.
struct DeviceMember {
  int rank = 0;
  int ranks = 1;
  int device = 0;
  const char* group = "";
  /// Returns false and sets `failure` if the group has failed. Called during waits.
  bool (*look)(const void* context, module::Failure& failure) noexcept = nullptr;
  const void* context = nullptr;
};

/// Maximum length of a device's name, including the terminator.
inline constexpr std::size_t kDeviceNameMax = 256;

/// Maximum length of a PCI address, including the terminator.
inline constexpr std::size_t kAddressMax = 32;

/// Settings of cuda::DeviceExam. examine() reports its current step by `note`.
struct DeviceExamOrder {
  int device = 0;
  std::size_t memory_bytes = 0;  ///< 0: the default
  unsigned product_size = 0;     ///< 0: the default
  void (*note)(const void* context, const char* device, const char* doing) noexcept = nullptr;
  double (*seconds)(const void* context) noexcept = nullptr;  ///< a clock
  const void* context = nullptr;
};

struct DeviceExamResult {
  char name[kDeviceNameMax] = {};
  char address[kAddressMax] = {};  ///< on the PCI bus
  double memory_bytes_per_second = 0;
  double product_flops = 0;
};

/// Functions of DeviceMemory. `release` needs no object, since memory may outlive its group.
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

/// Memory of DeviceCollectives::allocate(), which it may outlive.
struct RegisteredMemoryTable {
  void* (*create)(void* collectives, std::size_t bytes,
                  module::Failure& failure) noexcept = nullptr;
  void* (*data)(const void* memory) noexcept = nullptr;
  void (*destroy)(void* memory) noexcept = nullptr;
};

/// Functions that return a bool or a pointer return false or null after setting `failure`; `left`
/// is as in module.hpp. `libraries` is passed to functions without an object.
struct DeviceTable {
  std::uint32_t version = kModuleVersion;
  const void* libraries = nullptr;
  /// Sets `devices` to the number of usable devices, at least 1. Fails with Errc::usage if none is
  /// visible, with another code if CUDA does not work.
  bool (*find_devices)(const void* libraries, int& devices,
                       module::Failure& failure) noexcept = nullptr;
  bool (*find_nccl)(const void* libraries, module::Failure& failure) noexcept = nullptr;
  /// Blocks, without limit if the device does not respond. Fails if the device is faulty.
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

/// The function that the module exports. Returns null after setting `failure` if the module cannot
/// be used.
using DeviceEntry = const DeviceTable* (*)(module::Failure& failure);
inline constexpr char kDeviceEntryName[] = "ddprun_device_module";

}  // namespace ddprun::nccl
