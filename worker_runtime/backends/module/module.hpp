// The border between the worker runtime and a backend that is a shared library of its own, since
// what it needs (Gloo, MPI) should not be loaded into workers that do not use it, nor be needed
// where it is not installed. Plain data alone crosses it: exceptions and memory stay on their side,
// so the two sides may differ in their C++ runtime.
#pragma once

#include "worker_runtime/backends/backend.hpp"
#include <ddprun/error.hpp>

#include <cstdint>

namespace ddprun::module {

/// Of everything in this file and of Operation. A module of another version is not used.
inline constexpr std::uint32_t kVersion = 5;

/// Longer messages are cut.
inline constexpr std::size_t kTextBytesMax = 2048;

/// What went wrong on the module's side.
struct Failure {
  Errc code = Errc::internal;
  bool is_of_peer = false;  ///< a PeerFailed
  int peer = -1;
  char text[kTextBytesMax] = {};
};

/// The group that a backend is this rank's part in. What is pointed to lives during create() only.
struct Member {
  int rank = 0;
  int size = 1;
  const char* group = "";
  const char* store_host = "";
  std::uint16_t store_port = 0;  ///< 0: there is no store
  int world_size = 1;
  const int* workers = nullptr;  ///< the group's ranks among all workers; null: all workers
};

/// Left until a deadline, in nanoseconds; kNever: there is none.
inline constexpr std::int64_t kNever = -1;

/// One backend object's functions; those that return a bool say false after filling `failure` in.
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

/// The one function that a module exports.
using Entry = const Table* (*)();
inline constexpr char kEntryName[] = "ddprun_backend_module";

}  // namespace ddprun::module
