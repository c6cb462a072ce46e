// Files in memory without a path, for data that another process reads as a file.
#pragma once

#include "rendezvous/base/unique_fd.hpp"

#include <string_view>

namespace ddprun {

/// Returns a memory file with mode 0600 that contains `bytes`, positioned at its start; -1 with
/// errno on failure. `name` appears in /proc.
UniqueFd memory_file(const char* name, std::string_view bytes);

}  // namespace ddprun
