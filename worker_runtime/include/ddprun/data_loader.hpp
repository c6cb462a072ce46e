// Loads batches ahead of the training loop on threads of its own, into memory of the process group,
// a bounded number at a time. The order of the batches, and what is in them, does not depend on the
// number of threads. One thread calls next(); batches may be released by any.
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

/// Batches that one loader may hold at a time; its memory is theirs.
inline constexpr std::size_t kPrefetchMax = 1024;
/// Threads of one loader: more than any machine feeds.
inline constexpr std::size_t kLoaderThreadsMax = 256;

/// Threads and memory of a DataLoader.
struct DataLoaderOptions {
  std::size_t threads = 2;  ///< 1 to kLoaderThreadsMax
  /// Batches that are loaded or being loaded, those in the caller's hands included: 1 to
  /// kPrefetchMax. With one, nothing is loaded ahead.
  std::size_t prefetch = 4;
  /// Of the largest batch. This many for each of `prefetch` batches are taken from the group.
  std::size_t batch_bytes_max = 0;
};

/// A loaded batch, whose memory the loader uses again when the last copy is gone. May outlive the
/// loader.
struct LoadedBatch {
  std::vector<std::int64_t> samples;  ///< as the list said
  /// What `load` has left, as many bytes as it returned, 64-byte aligned.
  std::span<std::byte> bytes;
  std::shared_ptr<void> hold;  ///< keeps the memory
};

/// Loads batches ahead of the caller on threads of its own.
class DataLoader {
 public:
  /// The samples of the next batch, or nothing at the end. Called by one thread at a time, in
  /// order, for each batch once; next() waits while it runs.
  using List = std::function<std::optional<std::vector<std::int64_t>>()>;
  /// Fills `memory`, batch_bytes_max bytes, with these samples and returns how many bytes it used.
  /// Called by several threads at a time. What it, or the list, throws is thrown by next() when the
  /// batch's turn comes, and ends the loader.
  using Load = std::function<std::size_t(std::span<const std::int64_t> samples,
                                         std::span<std::byte> memory)>;

  /// Begins to load. Throws Error{Errc::usage} for options out of range, and what the group's
  /// allocate() throws.
  DataLoader(ProcessGroup group, List list, Load load, DataLoaderOptions options);
  DataLoader(DataLoader&&) noexcept;
  DataLoader& operator=(DataLoader&&) noexcept;
  /// Waits for the batches that are being loaded.
  ~DataLoader();

  /// The next batch, nothing after the last one. Blocks until it is loaded; throws Errc::timeout at
  /// the deadline, Errc::usage if the caller holds all batches there are, and what loading threw.
  std::optional<LoadedBatch> next(Deadline deadline = Deadline::never());

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace ddprun
