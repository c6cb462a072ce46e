// Opens a folder and holds it by a descriptor, for tests.
#pragma once

#include "rendezvous/base/held_path.hpp"

#include <fcntl.h>
#include <filesystem>
#include <memory>

namespace ddprun::test {

inline HeldPath hold(const std::filesystem::path& folder) {
  return HeldPath(
      std::make_shared<UniqueFd>(::open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)), folder);
}

}  // namespace ddprun::test
