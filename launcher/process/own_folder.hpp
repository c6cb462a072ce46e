// Creates and removes folders in places where other users may rename and replace them. Thread-safe.
#pragma once

#include "rendezvous/base/unique_fd.hpp"

#include <filesystem>
#include <string>
#include <sys/types.h>

namespace ddprun {

/// Creates the folder in `parent` unless it exists, and opens it with O_PATH. On failure returns no
/// descriptor and sets errno: EPERM if the folder's owner is not the one that new files of this
/// process get.
UniqueFd make_own_folder(int parent, const std::string& name, mode_t mode);

/// Returns a path to the open folder that remains valid if the folder is moved.
std::filesystem::path path_of_descriptor(int folder);

/// Removes the contents of the open folder as far as possible. Does not follow symbolic links.
void remove_contents(int folder);

}  // namespace ddprun
