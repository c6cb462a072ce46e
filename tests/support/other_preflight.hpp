// A ddprun with a preflight program of a test.
#pragma once

#include "tests/support/program.hpp"
#include "tests/support/temporary_folder.hpp"

#include <filesystem>
#include <string>

namespace ddprun::test {

/// A copy of ddprun with `script`, run by sh, as its ddprun-preflight; $1 is the file of its
/// report.
class OtherPreflight {
 public:
  explicit OtherPreflight(const std::string& script) {
    std::filesystem::copy_file(in_bin("ddprun"), folder_ / "ddprun");
    write_file(folder_ / "ddprun-preflight", "#!/bin/sh\n" + script, true);
  }
  std::string ddprun() const { return folder_ / "ddprun"; }

 private:
  TemporaryFolder folder_;
};

}  // namespace ddprun::test
