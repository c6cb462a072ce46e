// Training state that survives the worker. A checkpoint is one file of named byte sections with a
// checksum, written to a temporary file, flushed to the disk and renamed, so that a reader finds
// the old one or the new one and never half of it. Blocking; one thread at a time.
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

/// What a checkpoint holds: sections by name, e.g. "parameters", "optimizer", "sampler", "random".
struct Checkpoint {
  std::int64_t step = 0;                                   ///< optimizer steps that went into it
  std::map<std::string, std::vector<std::byte>> sections;  ///< bytes by name

  bool operator==(const Checkpoint&) const = default;
};

/// Copies an array (std::vector, std::span, ...) into section `name` as it is in memory, replacing
/// what was there.
template <std::ranges::contiguous_range Range>
void put_section(Checkpoint& checkpoint, const std::string& name, const Range& values) {
  static_assert(std::is_trivially_copyable_v<std::ranges::range_value_t<Range>>);
  const auto bytes = std::as_bytes(std::span(values));
  checkpoint.sections[name].assign(bytes.begin(), bytes.end());
}

/// Copies section `name` to `bytes`. Throws Error{Errc::usage} if it is missing or has another
/// size.
void get_section(const Checkpoint& checkpoint, const std::string& name, std::span<std::byte> bytes);

/// The same for an array, which must have as many elements as were put.
template <std::ranges::contiguous_range Range>
void get_section(const Checkpoint& checkpoint, const std::string& name, Range&& values) {
  static_assert(std::is_trivially_copyable_v<std::ranges::range_value_t<Range>>);
  const std::span<std::byte> bytes = std::as_writable_bytes(std::span(values));
  get_section(checkpoint, name, bytes);
}

class WriterLock;

/// A directory of checkpoints of one run, named by step. Any number of processes may read; from its
/// claim() or first save() on an object is the directory's only writer (a copy counts as the same
/// object).
class CheckpointDirectory {
 public:
  /// How many checkpoints are kept, and how other writers are waited for.
  struct Options {
    /// Older ones are deleted after a new one is safely there. At least 2, so that a damaged newest
    /// has a predecessor.
    std::size_t keep = 3;
    /// How long claim() or the first save() waits for another writer to end. A killed worker keeps
    /// its place until the kernel has taken its memory apart, and its successor may be there
    /// before.
    std::chrono::milliseconds takeover_timeout = std::chrono::seconds(10);
    Log log = {};  ///< of what is passed over, waited for or removed; empty: nobody hears of it
  };

  /// Creates the directory if it is missing, which the log is told, and removes temporary files
  /// that dead writers left. Throws Error{Errc::system} if that is not possible, Errc::usage for a
  /// `keep` below 2.
  explicit CheckpointDirectory(std::filesystem::path path);
  /// The same with other options than the defaults.
  CheckpointDirectory(std::filesystem::path path, Options options);

  /// Makes this object the only writer before there is anything to save, so that what is loaded
  /// next is what it goes on from. Throws Error{Errc::usage} naming the other writer if there is
  /// one that does not end within takeover_timeout; says in the log that it waits.
  void claim();

  /// Durable when it returns. Throws Error{Errc::system} naming the file (disk full, ...); earlier
  /// checkpoints are untouched then and no temporary file is left. The first one claims the
  /// directory unless that has been done.
  void save(const Checkpoint& checkpoint);

  /// The one with the highest step that is undamaged; each damaged one on the way is logged with
  /// its reason. Nothing if there is no file; if none of those that are there can be used, it
  /// throws Error{Errc::usage} with the newest's reason. Logs which one it is, or that there is
  /// none.
  std::optional<Checkpoint> load_newest() const;

  /// Steps of the files that are there, ascending, damaged ones included.
  std::vector<std::int64_t> steps() const;

 private:
  void remove_temporaries(const std::vector<std::string>& names) const;
  void remove_older_than(std::int64_t newest) const;

  std::filesystem::path path_;
  Options options_;
  std::shared_ptr<WriterLock> lock_;  // shared so that a directory object can be copied
};

}  // namespace ddprun
