// One checkpoint as bytes of a file; the layout is in docs/checkpoint.md. Reading takes nothing on
// trust: every length is compared with what is left of the file before anything is allocated.
// Blocking; any thread.
#pragma once

#include <ddprun/checkpoint.hpp>

#include <cstddef>
#include <string>
#include <variant>

namespace ddprun {

/// A state dictionary has tens of sections; more is a mistake or a foreign file.
inline constexpr std::size_t kCheckpointSectionsMax = 4096;

/// As long as a file name may be.
inline constexpr std::size_t kSectionNameBytesMax = 255;

/// Throws Error{Errc::usage} if the checkpoint breaks one of the bounds or has a negative step.
void check_checkpoint(const Checkpoint& checkpoint);

/// Writes `checkpoint`, which has been checked, from the current position of `fd` on. Throws
/// Error{Errc::system} saying how far it came.
void write_checkpoint(int fd, const Checkpoint& checkpoint);

/// Why a file is not a checkpoint.
struct CheckpointDamage {
  std::string reason;
};

/// Reads the whole of `fd` from its beginning.
std::variant<Checkpoint, CheckpointDamage> read_checkpoint(int fd);

}  // namespace ddprun
