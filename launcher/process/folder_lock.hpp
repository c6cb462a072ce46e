// Marks the cgroup and the temporary folder of a run as in use. The run's agent holds a shared
// flock, which the kernel releases however the agent ends. A later start removes folders on which
// it gets an exclusive lock. Thread-safe.
#pragma once

#include "rendezvous/base/unique_fd.hpp"

#include <cstddef>
#include <fcntl.h>
#include <filesystem>
#include <string>
#include <string_view>

namespace ddprun {

/// Length of random_word().
inline constexpr std::size_t kWordLetters = 24;

/// Returns random hexadecimal digits in lower case. Throws Error{Errc::system}.
std::string random_word();

/// Returns true if `name` is `prefix` followed by a random_word().
bool is_prefix_and_word(std::string_view name, std::string_view prefix);

/// Opens the folder and marks it as in use until the descriptor is closed. On failure returns no
/// descriptor and sets errno: EWOULDBLOCK or ENOENT if a later start is removing the folder. A
/// relative path begins at `parent`.
UniqueFd lock_folder(const std::filesystem::path& folder, int parent = AT_FDCWD);

/// Opens a folder that is not in use, and prevents others from using it. Returns no descriptor on
/// failure.
UniqueFd lock_unused_folder(const std::filesystem::path& folder);

}  // namespace ddprun
