// Loads batches ahead of the training loop on separate threads, into memory of the process group.
// The number of loaded batches is bounded. Order and content of batches do not depend on the number
// of threads. One thread calls next(); any thread may release batches.
#pragma once

#include <ddprun/deadline.hpp>
#include <ddprun/process_group.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace ddprun {

/// Maximum number of batches that a loader may hold.
inline constexpr std::size_t kPrefetchMax = 1024;
/// Maximum number of threads of a loader.
inline constexpr std::size_t kLoaderThreadsMax = 256;

/// Threads and memory of a DataLoader.
struct DataLoaderOptions {
  std::size_t threads = 2;  ///< 1 to kLoaderThreadsMax
  /// Maximum number of batches that are being loaded, are loaded or are held by the caller: 1 to
  /// kPrefetchMax. With 1, nothing is loaded ahead.
  std::size_t prefetch = 4;
  /// Size of the largest batch. The group allocates `prefetch` times this size.
  std::size_t batch_bytes_max = 0;
};

/// A loaded batch. The loader reuses its memory after the last copy is destroyed. May outlive the
/// loader.
struct LoadedBatch {
  std::vector<std::int64_t> samples;  ///< samples that the list returned
  /// Bytes written by `load`, 64-byte aligned.
  std::span<std::byte> bytes;
  std::shared_ptr<void> hold;  ///< keeps the memory alive
};

/// Loads batches on separate threads.
class DataLoader {
 public:
  /// Returns the samples of the next batch, or nothing at the end. Called once per batch, in order,
  /// by one thread at a time; next() waits while it runs.
  using List = std::function<std::optional<std::vector<std::int64_t>>()>;
  /// Fills `memory` of batch_bytes_max bytes with the samples and returns the number of bytes used.
  /// Several threads call it concurrently. An exception of `load` or the list is thrown by next()
  /// when its batch is due; the loader then ends.
  using Load = std::function<std::size_t(std::span<const std::int64_t> samples,
                                         std::span<std::byte> memory)>;

  /// Starts loading. Throws Error{Errc::usage} for invalid options and empty functions, and
  /// failures of the group's allocate().
  DataLoader(ProcessGroup group, List list, Load load, DataLoaderOptions options);
  DataLoader(DataLoader&&) noexcept;
  DataLoader& operator=(DataLoader&&) noexcept;
  /// Blocks until no batch is being loaded.
  ~DataLoader();

  /// Returns the next batch, or nothing after the last one. Blocks until the batch is loaded.
  /// Throws Errc::timeout at the deadline, Errc::usage if the caller holds `prefetch` batches, and
  /// the failures of loading.
  std::optional<LoadedBatch> next(Deadline deadline = Deadline::never());

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace ddprun
