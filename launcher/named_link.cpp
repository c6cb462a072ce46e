// libexec/ddprun/torchrun of a wheel: executes bin/ddprun under its own name. It replaces the
// symbolic link of other installations, which a wheel cannot contain.
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <string>
#include <system_error>
#include <unistd.h>

int main(int argc, char** argv) {
  std::error_code error;
  const auto own = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error || argc == 0) {
    std::fprintf(stderr, "/proc/self/exe: %s\n", error.message().c_str());
    return 126;
  }
  const auto bin = own.parent_path().parent_path().parent_path() / "bin";
  // A name in bin, by which ddprun finds the environment's Python.
  std::string name = bin / own.filename();
  argv[0] = name.data();
  const std::string program = bin / "ddprun";
  ::execv(program.c_str(), argv);
  const int reason = errno;
  std::perror(program.c_str());
  return reason == ENOENT ? 127 : 126;
}
