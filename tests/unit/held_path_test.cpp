#include "rendezvous/base/held_path.hpp"

#include "tests/support/hold.hpp"
#include "tests/support/temporary_folder.hpp"

#include <doctest/doctest.h>

#include <cerrno>
#include <fcntl.h>
#include <fstream>
#include <iterator>
#include <sys/stat.h>
#include <vector>

namespace held_path_test {

using namespace ddprun;
using namespace ddprun::test;
namespace fs = std::filesystem;

namespace {

using Open = UniqueFd (*)(int, const fs::path&, int, mode_t);

struct Way {
  std::string name;
  Open open;
};

const std::vector<Way> kWays = {{"openat2", open_beneath},
                                {"by component", open_beneath_by_component}};

std::string text_of(const fs::path& file) {
  std::ifstream stream(file);
  return std::string(std::istreambuf_iterator<char>(stream), {});
}

UniqueFd held(const fs::path& folder) {
  return UniqueFd(::open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
}

/// A folder with the file a/b/file, and one beside it that must not be reached.
struct Fixture {
  Fixture() {
    fs::create_directories(inside / "a/b");
    fs::create_directories(outside / "b");
    std::ofstream(inside / "a/b/file") << "inside";
    std::ofstream(outside / "b/file") << "outside";
    std::ofstream(outside / "file") << "outside";
  }

  TemporaryFolder folder{};
  fs::path inside = folder.path() / "inside";
  fs::path outside = folder.path() / "outside";
};

}  // namespace

TEST_SUITE("held path") {
  TEST_CASE_FIXTURE(Fixture,
                    "held path: files are opened in the held folder even after it was moved") {
    const auto top = held(inside);
    fs::rename(inside, folder.path() / "moved");
    fs::create_directory_symlink(outside, inside);
    for (const auto& way : kWays) {
      CAPTURE(way.name);
      CHECK(read_at_most(way.open(top.get(), "a/b/file", O_RDONLY, 0).get(), 100) == "inside");
      CHECK(read_at_most(way.open(top.get(), "a/./b//file", O_RDONLY, 0).get(), 100) == "inside");
      CHECK(way.open(top.get(), "a/b", O_PATH | O_DIRECTORY, 0).get() >= 0);
      CHECK(way.open(top.get(), "", O_PATH | O_DIRECTORY, 0).get() >= 0);
      const auto made = way.open(top.get(), "a/" + way.name, O_WRONLY | O_CREAT | O_EXCL, 0640);
      REQUIRE(made.get() >= 0);
      CHECK((::fcntl(made.get(), F_GETFD) & FD_CLOEXEC) != 0);
      struct stat status {};
      CHECK(::stat((folder.path() / "moved/a" / way.name).c_str(), &status) == 0);
      CHECK((status.st_mode & 0740) == 0640);
    }
  }

  TEST_CASE_FIXTURE(Fixture, "held path: symbolic links below the folder are rejected") {
    const auto top = held(inside);
    fs::create_directory_symlink(outside, inside / "link");
    fs::create_directory_symlink(outside / "b", inside / "a/link");
    fs::create_symlink(outside / "file", inside / "a/b/link");
    fs::create_directory_symlink("b",
                                 inside / "a/near");  // stays in the folder, but may be changed
    for (const auto& way : kWays) {
      for (const std::string name : {"link/file", "link/b/file", "a/link/file", "a/near/file"}) {
        CAPTURE(way.name + ": " + name);
        CHECK(way.open(top.get(), name, O_WRONLY | O_CREAT | O_TRUNC, 0600).get() < 0);
        CHECK((errno == ELOOP || errno == ENOTDIR));
      }
      for (const int flags : {O_RDONLY, O_WRONLY | O_CREAT | O_TRUNC, O_PATH}) {
        CAPTURE(way.name);
        CHECK(way.open(top.get(), "a/b/link", flags, 0600).get() < 0);
        CHECK(errno == ELOOP);
      }
      CHECK(way.open(top.get(), "link", O_PATH | O_DIRECTORY, 0).get() < 0);
    }
    CHECK(text_of(outside / "file") == "outside");
    CHECK(text_of(outside / "b/file") == "outside");
  }

  TEST_CASE_FIXTURE(Fixture, "held path: names outside the folder are rejected") {
    const auto top = held(inside);
    for (const auto& way : kWays) {
      for (const fs::path& name : {fs::path("../outside/file"), fs::path("a/../../outside/file"),
                                   fs::path(".."), outside / "file", fs::path("/")}) {
        CAPTURE(way.name + ": " + name.string());
        CHECK(way.open(top.get(), name, O_RDONLY, 0).get() < 0);
        CHECK(errno == EXDEV);
      }
      CHECK(way.open(top.get(), "absent/file", O_RDONLY, 0).get() < 0);
      CHECK(errno == ENOENT);
      CHECK(way.open(top.get(), "a/b/file/x", O_RDONLY, 0).get() < 0);
      CHECK(errno == ENOTDIR);
    }
  }

  TEST_CASE_FIXTURE(Fixture, "held path: open_regular() opens only regular files with one link") {
    const auto top = hold(inside);
    for (const auto& file : {top / "a/b", HeldPath(inside) / "a/b"}) {
      const auto path = file.path() / "x";
      REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
      for (const int flags : {O_RDONLY, O_RDWR | O_CREAT, O_WRONLY | O_CREAT | O_APPEND}) {
        CHECK((file / "x").open_regular(flags, 0600).get() < 0);  // and does not wait
        CHECK(errno == ENXIO);
      }
      fs::remove(path);
      fs::create_directory(path);
      CHECK((file / "x").open_regular(O_RDONLY).get() < 0);
      CHECK(errno == EISDIR);
      fs::remove(path);
      fs::create_hard_link(outside / "file", path);
      CHECK((file / "x").open_regular(O_WRONLY | O_TRUNC).get() < 0);
      CHECK(errno == EMLINK);
      CHECK(text_of(outside / "file") == "outside");
      fs::remove(path);
      fs::create_symlink(outside / "file", path);
      CHECK((file / "x").open_regular(O_WRONLY | O_TRUNC).get() < 0);
      CHECK(errno == ELOOP);
      fs::remove(path);
      std::ofstream(path) << "old";
      CHECK(read_at_most((file / "x").open_regular(O_RDONLY).get(), 2) == "ol");
      CHECK((file / "x").open_regular(O_WRONLY | O_TRUNC).get() >= 0);
      CHECK(text_of(path).empty());
      fs::remove(path);
    }
  }

  TEST_CASE_FIXTURE(Fixture, "held path: names are joined and split like paths") {
    const auto top = hold(inside);
    const auto file = top / "a" / "b/file";
    CHECK(file.path() == inside / "a/b/file");
    CHECK(file.parent_path().path() == inside / "a/b");
    CHECK((file.parent_path().parent_path().parent_path() / "a/b/file").open(O_RDONLY).get() >= 0);
    CHECK(top.open(O_PATH | O_DIRECTORY).get() >= 0);
    CHECK(HeldPath().empty());
    CHECK_FALSE(file.empty());
  }
}

}  // namespace held_path_test
