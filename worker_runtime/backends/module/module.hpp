// Interface between the worker runtime and a backend in a shared library, so that Gloo and MPI are
// only loaded where they are used. Only plain data crosses it: exceptions and memory stay on their
// side, so both sides may have different C++ runtimes.
#pragma once

#include "worker_runtime/backends/backend.hpp"
#include <ddprun/error.hpp>

#include <cstdint>

namespace ddprun::module {

/// Version of this file and of Operation. Modules of other versions are refused.
inline constexpr std::uint32_t kVersion = 5;

/// Maximum length of a message, including the terminator.
inline constexpr std::size_t kTextBytesMax = 2048;

/// Failure on the module's side.
struct Failure {
  Errc code = Errc::internal;
  bool is_of_peer = false;  ///< the exception was PeerFailed
  int peer = -1;
  char text[kTextBytesMax] = {};
};

/// The group of a backend. Pointers are valid during create() only.
struct Member {
  int rank = 0;
  int size = 1;
  const char* group = "";
  const char* store_host = "";
  std::uint16_t store_port = 0;  ///< 0: no store
  int world_size = 1;
  const int* workers = nullptr;  ///< the group's ranks among all workers; null: all workers
};

/// Remaining time in nanoseconds; kNever: no deadline.
inline constexpr std::int64_t kNever = -1;

/// Functions of a backend object. Those that return a bool return false after setting `failure`.
struct Table {
  std::uint32_t version = kVersion;
  void* (*create)(const Member& member, Failure& failure) noexcept = nullptr;
  bool (*enter)(void* backend, std::int64_t left, Failure& failure) noexcept = nullptr;
  bool (*run)(void* backend, const Operation& operation, std::int64_t left,
              Failure& failure) noexcept = nullptr;
  void (*abort)(void* backend, const char* reason) noexcept = nullptr;
  void (*leave)(void* backend) noexcept = nullptr;
  void (*destroy)(void* backend) noexcept = nullptr;
};

/// The function that a module exports.
using Entry = const Table* (*)();
inline constexpr char kEntryName[] = "ddprun_backend_module";

}  // namespace ddprun::module
