#include "launcher/process/core_file.hpp"

#include <fstream>
#include <sys/stat.h>
#include <unistd.h>

namespace ddprun {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t kProcessNameBytes = 15;  // TASK_COMM_LEN without the terminating zero

std::optional<std::string> expand(char specifier, const CoreFacts& facts) {
  switch (specifier) {
    case '%':
      return "%";
    case 'p':
    case 'P':
    case 'i':  // the thread's ID, usually that of the main thread
    case 'I':
      return std::to_string(facts.pid);
    case 's':
      return std::to_string(facts.signal);
    case 'u':
      return std::to_string(::getuid());
    case 'g':
      return std::to_string(::getgid());
    case 'h':
      return facts.host;
    case 'e':
    case 'f':
      return fs::path(facts.program).filename().string().substr(0, kProcessNameBytes);
    default:
      return std::nullopt;
  }
}

std::string first_line_of(const char* file) {
  std::ifstream stream(file);
  std::string line;
  std::getline(stream, line);
  return line;
}

}  // namespace

std::optional<fs::path> core_file_name(std::string_view pattern, bool uses_pid,
                                       const CoreFacts& facts) {
  if (pattern.empty() || pattern.front() == '|') return std::nullopt;
  std::string name;
  bool has_pid = false;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] != '%') {
      name += pattern[i];
      continue;
    }
    if (++i == pattern.size()) break;
    const auto text = expand(pattern[i], facts);
    if (!text) return std::nullopt;
    has_pid = has_pid || pattern[i] == 'p';
    name += *text;
  }
  if (uses_pid && !has_pid) name += "." + std::to_string(facts.pid);
  return facts.folder / name;
}

std::optional<fs::path> find_core_file(const CoreFacts& facts) {
  const auto name = core_file_name(first_line_of("/proc/sys/kernel/core_pattern"),
                                   first_line_of("/proc/sys/kernel/core_uses_pid") == "1", facts);
  std::error_code error;
  // The kernel does not follow links.
  if (!name || !fs::is_regular_file(fs::symlink_status(*name, error))) return std::nullopt;
  return name;
}

}  // namespace ddprun
