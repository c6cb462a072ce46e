#include "launcher/plan/installed_pytorch.hpp"

#include "rendezvous/base/text.hpp"

#include <elf.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <fstream>
#include <string_view>
#include <utility>
#include <vector>

namespace ddprun {

namespace {

namespace fs = std::filesystem;

// A message that PyTorch contains if it was compiled without its libuv store. The functions of that
// store are not exported.
constexpr std::string_view kNoLibuv = "LibUV TCPStore implementation missing";

constexpr std::size_t kSectionsMax = 4096;
constexpr std::size_t kTextMax = 65536;                          // bytes of a text file
constexpr std::uint64_t kConstantsMax = std::uint64_t{1} << 28;  // bytes of all such sections

/// Returns the lines at the beginning of a text file; none if it cannot be read. Files that are not
/// regular are not opened, as that may block.
std::vector<std::string> read_lines(const fs::path& file) {
  std::error_code error;
  if (!fs::is_regular_file(file, error)) return {};
  std::ifstream in(file);
  std::string text(kTextMax, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(in.gcount()));
  return split(text, '\n');
}

bool has_line(const fs::path& file, std::string_view wanted) {
  const auto lines = read_lines(file);
  return std::any_of(lines.begin(), lines.end(), [&](std::string line) {
    std::erase(line, ' ');
    return line == wanted;
  });
}

/// Returns the folders in Python's search order.
std::vector<fs::path> package_folders(const fs::path& interpreter,
                                      const EnvironmentLookup& environment) {
  std::error_code error;
  const auto real = fs::canonical(interpreter, error);
  if (error) return {};
  std::vector<fs::path> folders;
  for (const auto& folder : split(environment("PYTHONPATH").value_or(""), ':')) {
    if (!folder.empty()) folders.emplace_back(folder);
  }
  const fs::path own_packages = fs::path("lib") / real.filename() / "site-packages";
  const auto prefix = interpreter.parent_path().parent_path();
  if (fs::exists(prefix / "pyvenv.cfg", error)) {
    folders.push_back(prefix / own_packages);
    if (!has_line(prefix / "pyvenv.cfg", "include-system-site-packages=true")) return folders;
  }
  const auto home = environment("HOME").value_or("");
  if (!home.empty() && environment("PYTHONNOUSERSITE").value_or("").empty()) {
    folders.push_back(home / fs::path(".local") / own_packages);
  }
  const auto system = real.parent_path().parent_path();
  folders.push_back(system / own_packages);
  // Debian's names.
  folders.push_back(system / "local" / "lib" / real.filename() / "dist-packages");
  folders.push_back(system / "lib" / "python3" / "dist-packages");
  return folders;
}

/// Returns the value of `__version__` in torch/version.py; empty if the file has none.
std::string read_version(const fs::path& torch) {
  for (const auto& line : read_lines(torch / "version.py")) {
    if (!line.starts_with("__version__ = '")) continue;
    const auto begin = line.find('\'') + 1;
    return line.substr(begin, line.find('\'', begin) - begin);
  }
  return {};
}

/// Returns the first two numbers of "2.6.0+debian"; nullopt if they are missing.
std::optional<std::pair<int, int>> major_and_minor(std::string_view version) {
  int major = 0, minor = 0;
  const auto* end = version.data() + version.size();
  const auto [dot, error] = std::from_chars(version.data(), end, major);
  if (error != std::errc() || dot == end || *dot != '.') return std::nullopt;
  if (std::from_chars(dot + 1, end, minor).ec != std::errc()) return std::nullopt;
  return std::pair(major, minor);
}

bool asks_for_libuv(std::string_view version) {
  return major_and_minor(version) >= std::pair(2, 4);
}

bool contains(std::ifstream& in, std::uint64_t begin, std::uint64_t bytes, std::string_view text) {
  std::string part(std::size_t{1} << 20, '\0');
  in.seekg(static_cast<std::streamoff>(begin));
  std::size_t kept = 0;  // end of the previous part, which may contain the beginning of the text
  while (bytes > 0) {
    const auto wanted = std::min<std::uint64_t>(bytes, part.size() - kept);
    if (!in.read(part.data() + kept, static_cast<std::streamsize>(wanted))) return false;
    bytes -= wanted;
    const std::string_view seen(part.data(), kept + wanted);
    if (seen.find(text) != std::string_view::npos) return true;
    kept = std::min(seen.size(), text.size() - 1);
    std::copy(seen.end() - static_cast<std::ptrdiff_t>(kept), seen.end(), part.begin());
  }
  return false;
}

/// Returns true if the constants of a 64-bit ELF file contain the text.
bool has_constant(const fs::path& file, std::string_view text) {
  std::ifstream in(file, std::ios::binary);
  Elf64_Ehdr header{};
  if (!in.read(reinterpret_cast<char*>(&header), sizeof header)) return false;
  const bool is_elf = std::memcmp(header.e_ident, ELFMAG, SELFMAG) == 0 &&
                      header.e_ident[EI_CLASS] == ELFCLASS64 &&
                      header.e_shentsize == sizeof(Elf64_Shdr) && header.e_shnum <= kSectionsMax;
  if (!is_elf) return false;
  std::vector<Elf64_Shdr> sections(header.e_shnum);
  in.seekg(static_cast<std::streamoff>(header.e_shoff));
  if (!in.read(reinterpret_cast<char*>(sections.data()),
               static_cast<std::streamsize>(sections.size() * sizeof(Elf64_Shdr)))) {
    return false;
  }
  std::uint64_t left = kConstantsMax;
  return std::any_of(sections.begin(), sections.end(), [&](const Elf64_Shdr& section) {
    constexpr Elf64_Xword kKind = SHF_ALLOC | SHF_WRITE | SHF_EXECINSTR;
    if (section.sh_type != SHT_PROGBITS || (section.sh_flags & kKind) != SHF_ALLOC ||
        section.sh_size > left) {
      return false;
    }
    left -= section.sh_size;
    in.clear();
    return contains(in, section.sh_offset, section.sh_size, text);
  });
}

bool is_built_without_libuv(const fs::path& torch) {
  std::error_code error;
  const auto own = fs::canonical(torch / "lib", error);
  const auto library = fs::canonical(torch / "lib" / "libtorch_cpu.so", error);
  if (error || library.parent_path() == own || !fs::is_regular_file(library, error)) return false;
  return has_constant(library, kNoLibuv);
}

}  // namespace

std::optional<InstalledPytorch> find_pytorch(const fs::path& interpreter,
                                             const EnvironmentLookup& environment) {
  for (const auto& folder : package_folders(interpreter, environment)) {
    const auto version = read_version(folder / "torch");
    if (version.empty()) continue;
    const bool lacks_libuv = asks_for_libuv(version) && is_built_without_libuv(folder / "torch");
    return InstalledPytorch{version, lacks_libuv};
  }
  return std::nullopt;
}

std::string_view local_rank_option(std::string_view version) {
  const auto numbers = major_and_minor(version);
  return numbers && *numbers < std::pair(2, 0) ? "--local_rank" : "--local-rank";
}

}  // namespace ddprun
