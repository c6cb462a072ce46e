// Durable training state. A checkpoint is one file of named byte sections with a checksum, written
// to a temporary file, flushed to the disk and renamed, so that a reader finds either the old file
// or the complete new one. Blocking; one thread at a time.
#pragma once

#include <ddprun/log.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <ranges>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

namespace ddprun {

/// Sections by name, such as "parameters", "optimizer", "sampler", "random".
struct Checkpoint {
  std::int64_t step = 0;                                   ///< number of completed optimizer steps
  std::map<std::string, std::vector<std::byte>> sections;  ///< bytes by name

  bool operator==(const Checkpoint&) const = default;
};

/// Copies the bytes of an array (std::vector, std::span, ...) into section `name`, replacing it.
template <std::ranges::contiguous_range Range>
void put_section(Checkpoint& checkpoint, const std::string& name, const Range& values) {
  static_assert(std::is_trivially_copyable_v<std::ranges::range_value_t<Range>>);
  const auto bytes = std::as_bytes(std::span(values));
  checkpoint.sections[name].assign(bytes.begin(), bytes.end());
}

/// Copies section `name` to `bytes`. Throws Error{Errc::usage} if it is missing or has another
/// size.
void get_section(const Checkpoint& checkpoint, const std::string& name, std::span<std::byte> bytes);

/// The same for an array, which must have the same number of elements.
template <std::ranges::contiguous_range Range>
void get_section(const Checkpoint& checkpoint, const std::string& name, Range&& values) {
  static_assert(std::is_trivially_copyable_v<std::ranges::range_value_t<Range>>);
  const std::span<std::byte> bytes = std::as_writable_bytes(std::span(values));
  get_section(checkpoint, name, bytes);
}

class WriterLock;

/// A directory of checkpoints of one run, named by step. Any number of processes may read it. From
/// its claim() or first save() on, an object is the directory's only writer; copies count as the
/// same object.
class CheckpointDirectory {
 public:
  /// Number of kept checkpoints, and time limits.
  struct Options {
    /// Number of checkpoints to keep; older ones are deleted after a new one is durable. At least
    /// 2, so that a damaged newest one has a predecessor.
    std::size_t keep = 3;
    /// Time limit for claim() and the first save() to wait for another writer to end. A killed
    /// worker holds the lock until the kernel has freed its memory, which may take longer than the
    /// start of its successor.
    std::chrono::milliseconds takeover_timeout = std::chrono::seconds(10);
    Log log = {};  ///< logs skipped, awaited and removed files; empty: no log
  };

  /// Creates the directory if it is missing, and logs that; removes temporary files of dead
  /// writers. Throws Error{Errc::system} on failure, Errc::usage for a `keep` below 2.
  explicit CheckpointDirectory(std::filesystem::path path);
  /// The same with other options.
  CheckpointDirectory(std::filesystem::path path, Options options);

  /// Makes this object the only writer before there is anything to save, so that no other process
  /// adds checkpoints after the following load. Throws Error{Errc::usage} with the other writer if
  /// it does not end within takeover_timeout; logs that it waits.
  void claim();

  /// Saves durably. Throws Error{Errc::system} with the file (disk full, ...); earlier checkpoints
  /// are unchanged then, and no temporary file is left. The first call claims the directory if
  /// necessary.
  void save(const Checkpoint& checkpoint);

  /// Returns the undamaged checkpoint with the highest step, or nothing if there are no files. Logs
  /// skipped checkpoints with their problems, and the result. Throws Error{Errc::usage} with the
  /// newest one's problem if all are unusable.
  std::optional<Checkpoint> load_newest() const;

  /// Returns the steps of all files in ascending order, including damaged ones.
  std::vector<std::int64_t> steps() const;

 private:
  void remove_temporaries(const std::vector<std::string>& names) const;
  void remove_older_than(std::int64_t newest) const;

  std::filesystem::path path_;
  Options options_;
  std::shared_ptr<WriterLock> lock_;  // shared between copies
};

}  // namespace ddprun
