// Folders that ddprun creates and removes where another user may rename and replace them. Any
// thread.
#pragma once

#include "rendezvous/base/unique_fd.hpp"

#include <filesystem>
#include <string>
#include <sys/types.h>

namespace ddprun {

/// Creates the folder in `parent` unless it exists, and opens it by O_PATH. Returns no descriptor
/// and sets errno on an error: EPERM if it belongs to another user than what this process creates.
UniqueFd make_own_folder(int parent, const std::string& name, mode_t mode);

/// A path that leads to the open folder whatever its own path is.
std::filesystem::path path_of_descriptor(int folder);

/// Removes all that is in the open folder, as far as possible; follows no symbolic link.
void remove_contents(int folder);

}  // namespace ddprun
