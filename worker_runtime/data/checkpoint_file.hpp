// Reads and writes the file format of docs/checkpoint.md. Reading compares every length with the
// rest of the file before it allocates memory. Blocking; any thread.
#pragma once

#include <ddprun/checkpoint.hpp>

#include <cstddef>
#include <string>
#include <variant>

namespace ddprun {

/// State dictionaries have tens of sections; more indicate a foreign file.
inline constexpr std::size_t kCheckpointSectionsMax = 4096;

/// Maximum length of a file name.
inline constexpr std::size_t kSectionNameBytesMax = 255;

/// Throws Error{Errc::usage} if the checkpoint exceeds a limit or has a negative step.
void check_checkpoint(const Checkpoint& checkpoint);

/// Writes `checkpoint`, which has been checked, at the current position of `fd`. Throws
/// Error{Errc::system} with the number of written bytes.
void write_checkpoint(int fd, const Checkpoint& checkpoint);

/// Reason why a file is not a valid checkpoint.
struct CheckpointDamage {
  std::string reason;
};

/// Reads `fd` from its beginning.
std::variant<Checkpoint, CheckpointDamage> read_checkpoint(int fd);

}  // namespace ddprun
