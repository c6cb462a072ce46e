// A file without a name, for what must be read as a file but is nobody else's business.
#pragma once

#include "rendezvous/base/unique_fd.hpp"

#include <string_view>

namespace ddprun::ssh {

/// Holds `bytes`, to be read from the start, by its owner alone; closed (-1) if there can be none,
/// with the reason in errno. `name` is for people who look into /proc.
UniqueFd memory_file(const char* name, std::string_view bytes);

}  // namespace ddprun::ssh
