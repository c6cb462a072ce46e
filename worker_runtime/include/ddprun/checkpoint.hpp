// Durable training state. A checkpoint is one file of named byte sections with a checksum. It is
// written to a temporary file, flushed to the disk and renamed, so a reader finds either the old
// file or the complete new one. Blocking; one thread at a time.
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
#include <set>
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

/// Copies section `name` to an array, which must have the section's number of bytes. A checkpoint
/// does not contain the types of elements.
template <std::ranges::contiguous_range Range>
void get_section(const Checkpoint& checkpoint, const std::string& name, Range&& values) {
  static_assert(std::is_trivially_copyable_v<std::ranges::range_value_t<Range>>);
  const std::span<std::byte> bytes = std::as_writable_bytes(std::span(values));
  get_section(checkpoint, name, bytes);
}

class WriterLock;

/// A directory with the checkpoints of one run, named by step. Any number of processes may read it.
/// An object becomes the directory's only writer with its claim() or first save(); its copies share
/// this role.
class CheckpointDirectory {
 public:
  /// Number of checkpoints to keep, time limit and log.
  struct Options {
    /// Number of checkpoints to keep; older files are deleted after a new one is durable. At least
    /// 2, so that an intact file remains if the newest is damaged. Files that load_newest() found
    /// damaged do not count.
    std::size_t keep = 3;
    /// Time limit for claim() and the first save() to wait for another writer to end. A killed
    /// worker holds the lock until the kernel has freed its memory, which may take longer than the
    /// start of its successor.
    std::chrono::milliseconds takeover_timeout = std::chrono::seconds(10);
    Log log = {};  ///< log of skipped, awaited and removed files; empty: none
  };

  /// Creates the directory if it is missing, and logs that; removes temporary files of dead
  /// writers. Throws Error{Errc::system} on failure, Errc::usage for a `keep` below 2.
  explicit CheckpointDirectory(std::filesystem::path path);
  /// Does the same with `options`.
  CheckpointDirectory(std::filesystem::path path, Options options);

  /// Makes this object the only writer before its first save(), so that no other process adds
  /// checkpoints after a load. If another writer exists, logs that it waits, and throws
  /// Error{Errc::usage} that names the writer, if known, after takeover_timeout.
  void claim();

  /// Saves durably. On failure (disk full, ...), throws Error{Errc::system} with the file's name,
  /// leaves earlier checkpoints unchanged and removes the temporary file. The first call claims the
  /// directory if necessary.
  void save(const Checkpoint& checkpoint);

  /// Returns the undamaged checkpoint with the highest step, or nothing if there are no files. Logs
  /// the result, and skipped checkpoints with their problems. If all are unusable, throws
  /// Error{Errc::usage} with the problem of the newest file.
  std::optional<Checkpoint> load_newest() const;

  /// Returns the steps of all files in ascending order, including damaged ones.
  std::vector<std::int64_t> steps() const;

 private:
  void remove_temporaries(const std::vector<std::string>& names) const;
  void remove_older_than(std::int64_t newest) const;

  std::filesystem::path path_;
  Options options_;
  std::shared_ptr<WriterLock> lock_;  // shared between copies
  /// Steps that load_newest() found damaged; shared between copies.
  std::shared_ptr<std::set<std::int64_t>> damaged_ = std::make_shared<std::set<std::int64_t>>();
};

}  // namespace ddprun
