// Finds the PyTorch of an interpreter, in folders like those of Debian, virtual environments and
// pip.
#include "launcher/plan/installed_pytorch.hpp"

#include "tests/support/command_lines.hpp"
#include "tests/support/temporary_folder.hpp"

#include <doctest/doctest.h>
#include <elf.h>

#include <fstream>

namespace installed_pytorch_test {

using namespace ddprun;
using namespace ddprun::test;
namespace fs = std::filesystem;

namespace {

constexpr const char* kMissing = "LibUV TCPStore implementation missing";

template <typename T>
std::string bytes_of(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

/// A 64-bit ELF file with code and constants, in this order.
std::string library(const std::string& code, const std::string& constants) {
  Elf64_Ehdr header{};
  std::copy_n(ELFMAG, SELFMAG, header.e_ident);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_shoff = sizeof header;
  header.e_shentsize = sizeof(Elf64_Shdr);
  header.e_shnum = 2;
  const Elf64_Off begin = sizeof header + 2 * sizeof(Elf64_Shdr);
  Elf64_Shdr text{}, data{};
  text.sh_type = data.sh_type = SHT_PROGBITS;
  text.sh_flags = SHF_ALLOC | SHF_EXECINSTR;
  text.sh_offset = begin;
  text.sh_size = code.size();
  data.sh_flags = SHF_ALLOC;
  data.sh_offset = begin + code.size();
  data.sh_size = constants.size();
  return bytes_of(header) + bytes_of(text) + bytes_of(data) + code + constants;
}

void write(const fs::path& file, const std::string& text) {
  fs::create_directories(file.parent_path());
  std::ofstream(file, std::ios::binary) << text;
}

/// A system with /usr/bin/python3.
class System {
 public:
  System() {
    write(root() / "usr/bin/python3.13", "");
    fs::create_symlink("python3.13", python());
  }

  const fs::path& root() const { return folder_.path(); }
  fs::path python() const { return root() / "usr/bin/python3"; }

  void write_version(const std::string& packages, const std::string& version) const {
    write(root() / packages / "torch/version.py",
          "from typing import Optional\n\n__version__ = '" + version + "'\ndebug = False\n");
  }

  /// Like Debian: the library is in the system's folder.
  void add_pytorch(const std::string& packages, const std::string& version,
                   const std::string& file = library("", kMissing)) const {
    write_version(packages, version);
    const auto in_system = root() / "usr/lib" / ("libtorch_cpu.so." + version);
    write(in_system, file);
    fs::create_directories(root() / packages / "torch/lib");
    fs::create_symlink(in_system, root() / packages / "torch/lib/libtorch_cpu.so");
  }

  /// Like pip: the library is in PyTorch's own folder.
  void add_bundle(const std::string& packages, const std::string& version) const {
    write_version(packages, version);
    write(root() / packages / "torch/lib/libtorch_cpu.so", library("", kMissing));
  }

  /// A virtual environment's interpreter.
  fs::path add_environment(const std::string& setting) const {
    write(root() / "venv/pyvenv.cfg", "home = /usr/bin\n" + setting + "\n");
    fs::create_directories(root() / "venv/bin");
    fs::create_symlink(python(), root() / "venv/bin/python3");
    return root() / "venv/bin/python3";
  }

 private:
  TemporaryFolder folder_;
};

constexpr const char* kDebian = "usr/lib/python3/dist-packages";

/// The version of a PyTorch that lacks libuv.
std::optional<std::string> found(const fs::path& interpreter, const Variables& variables = {}) {
  const auto pytorch = find_pytorch(interpreter, lookup_in(variables));
  return pytorch && pytorch->lacks_libuv ? std::optional(pytorch->version) : std::nullopt;
}

}  // namespace

TEST_SUITE("installed PyTorch") {
  TEST_CASE("installed PyTorch: Debian's package without libuv is recognised") {
    const System system;
    CHECK_FALSE(found(system.python()));
    system.add_pytorch(kDebian, "2.6.0+debian");
    CHECK(found(system.python()) == "2.6.0+debian");
    CHECK(found(system.root() / "usr/bin/python3.13") == "2.6.0+debian");
    CHECK_FALSE(found(system.root() / "usr/bin/python3.14"));
  }

  TEST_CASE("installed PyTorch: versions before 2.4 do not need libuv") {
    struct Case {
      const char* version;
      bool asks;
    };
    for (const Case& each :
         {Case{"1.13.0", false}, Case{"2.3.1", false}, Case{"2.4.0", true},
          Case{"2.14.1+debian", true}, Case{"3.0", true}, Case{"2", false}, Case{"x.y", false}}) {
      CAPTURE(each.version);
      const System system;
      system.add_pytorch(kDebian, each.version);
      CHECK(found(system.python()).has_value() == each.asks);
    }
  }

  TEST_CASE("installed PyTorch: a wheel with its own libraries has libuv") {
    const System system;
    system.add_bundle(kDebian, "2.6.0");
    CHECK(find_pytorch(system.python(), lookup_in({})) ==
          InstalledPytorch{.version = "2.6.0", .lacks_libuv = false});
  }

  TEST_CASE("installed PyTorch: versions since 2.0 and unknown ones use --local-rank") {
    CHECK(local_rank_option("1.13.0a0+gitunknown") == "--local_rank");
    for (const std::string version : {"2.0.0", "2.15.0+cu132", "3.0", "x.y", ""}) {
      CHECK_MESSAGE(local_rank_option(version) == "--local-rank", version);
    }
  }

  TEST_CASE("installed PyTorch: the first PyTorch on Python's search path is used") {
    const System system;
    system.add_pytorch(kDebian, "2.6.0");
    const Variables home = {{"HOME", (system.root() / "home").string()}};
    CHECK(found(system.python(), home) == "2.6.0");
    system.add_bundle("home/.local/lib/python3.13/site-packages", "2.9.0");
    CHECK_FALSE(found(system.python(), home));
    auto without_user = home;
    without_user["PYTHONNOUSERSITE"] = "1";
    CHECK(found(system.python(), without_user) == "2.6.0");
    auto with_path = home;
    with_path["PYTHONPATH"] = ":/no/such:" + (system.root() / "own").string();
    system.add_pytorch("own", "2.7.0");
    CHECK(found(system.python(), with_path) == "2.7.0");
    system.add_bundle("usr/local/lib/python3.13/dist-packages", "2.8.0");
    CHECK_FALSE(found(system.python()));
  }

  TEST_CASE("installed PyTorch: a virtual environment uses the system's only if configured") {
    for (const bool has_system : {false, true}) {
      const System system;
      system.add_pytorch(kDebian, "2.6.0");
      const auto python = system.add_environment("include-system-site-packages = " +
                                                 std::string(has_system ? "true" : "false"));
      CHECK(found(python).has_value() == has_system);
      system.add_bundle("venv/lib/python3.13/site-packages", "2.9.0");
      CHECK_FALSE(found(python));
    }
  }

  TEST_CASE("installed PyTorch: the marker is found anywhere but only among constants") {
    const std::size_t part = std::size_t{1} << 20;
    const std::string constants[] = {kMissing, std::string(part - 10, 'L') + kMissing,
                                     std::string(3 * part - 37, '\0') + kMissing + "end"};
    for (const auto& text : constants) {
      const System system;
      system.add_pytorch(kDebian, "2.6.0", library(std::string(99, 'L'), text));
      CHECK(found(system.python()));
    }
    const System system;
    system.add_pytorch(kDebian, "2.6.0", library(kMissing, std::string(2 * part, 'L')));
    CHECK_FALSE(found(system.python()));
  }

  TEST_CASE("installed PyTorch: an unreadable library is treated like one with libuv") {
    const auto whole = library("", std::string(4096, 'L') + kMissing);
    auto other_class = whole;
    other_class[EI_CLASS] = ELFCLASS32;
    const std::string files[] = {"", "no library", whole.substr(0, 100),
                                 whole.substr(0, whole.size() - 1), other_class};
    for (const auto& file : files) {
      const System system;
      system.add_pytorch(kDebian, "2.6.0", file);
      CHECK_FALSE(found(system.python()));
    }
    const System system;
    system.write_version(kDebian, "2.6.0");
    CHECK_FALSE(found(system.python()));
  }
}

}  // namespace installed_pytorch_test
