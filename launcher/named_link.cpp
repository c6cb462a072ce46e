// libexec/ddprun/torchrun of a wheel: executes bin/ddprun under its own name. Stands in for the
// symbolic link of other installations, which a wheel cannot contain.
#include <cstdio>
#include <filesystem>
#include <string>
#include <system_error>
#include <unistd.h>

int main(int, char** argv) {
  std::error_code error;
  const auto own = std::filesystem::read_symlink("/proc/self/exe", error);
  const auto bin = own.parent_path().parent_path().parent_path() / "bin";
  // As if it were in bin, so that ddprun finds the environment's Python.
  const std::string name = bin / own.filename();
  std::string argument = name;
  argv[0] = argument.data();
  const std::string program = bin / "ddprun";
  ::execv(program.c_str(), argv);
  std::perror(program.c_str());
  return 126;
}
