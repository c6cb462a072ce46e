// Creates files in place of libraries, for tests that search but do not load them.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>

namespace ddprun::test {

namespace fs = std::filesystem;

inline std::string put_file(const fs::path& file) {
  fs::create_directories(file.parent_path());
  std::ofstream(file) << "x";
  return file;
}

}  // namespace ddprun::test
