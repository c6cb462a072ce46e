// Training state that survives the worker. A checkpoint is one file of named byte sections with a
// checksum, written to a temporary file, flushed to the disk and renamed, so that a reader finds
// the old one or the new one and never half of it. Blocking; one thread at a time.
#pragma once

#include <ddprun/log.hpp>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace ddprun {

/// What a checkpoint holds: sections by name, e.g. "parameters", "optimizer", "sampler", "random".
struct Checkpoint {
  std::int64_t step = 0;  ///< optimizer steps that went into it
  std::map<std::string, std::vector<std::byte>> sections;

  bool operator==(const Checkpoint&) const = default;
};

/// A directory of checkpoints of one run, named by step.
class CheckpointDirectory {
 public:
  struct Options {
    /// Older ones are deleted after a new one is safely there. At least 2, so that a damaged newest
    /// has a predecessor.
    std::size_t keep = 3;
    Log log = {};
  };

  /// Creates the directory if it is missing and removes temporary files that dead writers left.
  explicit CheckpointDirectory(std::filesystem::path path);
  CheckpointDirectory(std::filesystem::path path, Options options);

  /// Durable when it returns. Throws Error{Errc::system} naming the file (disk full, ...); earlier
  /// checkpoints are untouched then and no temporary file is left.
  void save(const Checkpoint& checkpoint);

  /// The newest undamaged one; each damaged one on the way is logged with its reason. Nothing if
  /// there is none.
  std::optional<Checkpoint> load_newest() const;

  /// Steps of the files that are there, ascending, damaged ones included.
  std::vector<std::int64_t> steps() const;

 private:
  std::filesystem::path path_;
  Options options_;
};

}  // namespace ddprun
