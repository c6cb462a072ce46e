// Secret files: accepted and rejected ones with their reasons, and the creation of a new one.
#include "rendezvous/security/secret.hpp"
#include "tests/support/temporary_folder.hpp"
#include <ddprun/error.hpp>

#include <doctest/doctest.h>
#include <grp.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

namespace secret_file_test {

using namespace ddprun;
using namespace ddprun::security;
using ddprun::test::TemporaryFolder;

namespace {

std::string write(const std::string& path, const std::string& bytes, mode_t mode = 0600) {
  std::ofstream(path) << bytes;
  ::chmod(path.c_str(), mode);
  return path;
}

/// The error of the file; empty: accepted.
std::string objection(const std::string& path) {
  try {
    read_secret(path, "--secret_file=run.key");
    return {};
  } catch (const Error& error) {
    return error.what();
  }
}

const std::string kGood(64, 'x');

constexpr uid_t kNobody = 65534;

/// During its lifetime this process acts as an unprivileged user in an additional group.
class OtherUser {
 public:
  explicit OtherUser(gid_t group) : groups_(static_cast<std::size_t>(::getgroups(0, nullptr))) {
    REQUIRE(::getgroups(static_cast<int>(groups_.size()), groups_.data()) >= 0);
    REQUIRE(::setgroups(1, &group) == 0);
    REQUIRE(::setegid(kNobody) == 0);
    REQUIRE(::seteuid(kNobody) == 0);
  }
  OtherUser(const OtherUser&) = delete;
  OtherUser& operator=(const OtherUser&) = delete;
  ~OtherUser() {
    const bool is_back =
        ::seteuid(0) == 0 && ::setegid(0) == 0 && ::setgroups(groups_.size(), groups_.data()) == 0;
    if (!is_back) std::abort();
  }

 private:
  std::vector<gid_t> groups_;
};

}  // namespace

TEST_SUITE("secret file") {
  TEST_CASE("secret file: a secret of 32 to 4096 bytes without trailing newlines is accepted") {
    const TemporaryFolder folder;
    const auto taken = [&](const std::string& bytes) {
      return objection(write(folder / "secret", bytes));
    };
    for (const auto size : {kSecretBytesMin, kSecretBytesMax}) {
      const std::string bytes(size, 'x');
      CHECK(taken(bytes) == "");
      CHECK(read_secret(folder / "secret", "it").bytes() == bytes);
    }
    CHECK(taken(std::string(32, 'x') + "\r\n") == "");
    CHECK(read_secret(folder / "secret", "it").bytes() == std::string(32, 'x'));
    for (const auto& bytes : {std::string(31, 'x'), std::string(31, 'x') + "\n\n", std::string()}) {
      CHECK(taken(bytes).starts_with(
          "--secret_file=run.key: a secret must be 32 to 4096 bytes long; this one has " +
          std::to_string(bytes.find_last_of('x') + 1)));
    }
    CHECK(taken(std::string(4097, 'x')).find("this one is longer") != std::string::npos);
    CHECK(taken(std::string(1 << 20, '\n')).find("must be 32 to 4096") != std::string::npos);
  }

  TEST_CASE("secret file: distinct bytes are counted") {
    CHECK(Secret::from_bytes(kGood, "test").different_bytes() == 1);
    CHECK(Secret::from_bytes("0123456789abcdef0123456789abcdef\n", "test").different_bytes() == 16);
  }

  TEST_CASE("secret file: access by other users is rejected with a remedy") {
    const TemporaryFolder folder;
    for (const mode_t mode : {0600, 0400, 0700}) {
      CHECK(objection(write(folder / std::to_string(mode), kGood, mode)) == "");
    }
    for (const mode_t mode : {0640, 0620, 0610, 0604, 0602, 0601, 0666}) {
      const auto path = write(folder / std::to_string(mode), kGood, mode);
      const auto text = objection(path);
      CHECK(text.find("is open to others than its owner (mode 0") != std::string::npos);
      CHECK(text.find("chmod 600 " + path) != std::string::npos);
    }
  }

  TEST_CASE("secret file: a file that belongs to another unprivileged user is rejected") {
    if (::geteuid() != 0) return;  // only root can change the owner of a file
    const TemporaryFolder folder;
    const auto path = write(folder / "secret", kGood);
    REQUIRE(::chown(path.c_str(), kNobody, kNobody) == 0);
    CHECK(objection(path).find("belongs to user 65534") != std::string::npos);
  }

  TEST_CASE("secret file: a group-readable file is accepted only if root owns it") {
    if (::geteuid() != 0) return;  // only root can act as another user
    constexpr gid_t kGroup = 12345;
    struct Case {
      uid_t owner;
      gid_t group;
      mode_t mode;
      bool is_taken;
    };
    const Case cases[] = {
        {0, kGroup, 0440, true},        {0, kGroup, 0640, true},  {0, kNobody, 0440, true},
        {0, kGroup, 0444, false},       {0, kGroup, 0460, false}, {0, kGroup, 0450, false},
        {kNobody, kGroup, 0440, false},
    };
    const TemporaryFolder folder;
    REQUIRE(::chmod(folder.path().c_str(), 0711) == 0);
    // The other user may lack access to parent folders.
    const auto before = std::filesystem::current_path();
    std::filesystem::current_path(folder.path());
    for (const auto& each : cases) {
      const auto path = write("secret", kGood, each.mode);
      REQUIRE(::chown(path.c_str(), each.owner, each.group) == 0);
      const OtherUser user(kGroup);
      const auto text = objection(path);
      CAPTURE(each.mode);
      CAPTURE(text);
      CHECK(text.empty() == each.is_taken);
      CHECK((text.find("is open to others than its owner") == std::string::npos) == each.is_taken);
    }
    const auto path = write("other", kGood, 0440);
    REQUIRE(::chown(path.c_str(), 0, kGroup + 1) == 0);
    {
      const OtherUser stranger(kGroup);
      CHECK(objection(path).find("Permission denied") != std::string::npos);
    }
    std::filesystem::current_path(before);
  }

  TEST_CASE("secret file: only regular files and symbolic links to them are accepted") {
    const TemporaryFolder folder;
    CHECK(objection(folder / "absent") == "--secret_file=run.key: No such file or directory");
    CHECK(objection(folder.path()).find("is not a regular file") != std::string::npos);
    REQUIRE(::mkfifo((folder / "pipe").c_str(), 0600) == 0);
    CHECK(objection(folder / "pipe").find("is not a regular file") != std::string::npos);
    CHECK(objection("/dev/zero").find("is not a regular file") != std::string::npos);
    // As Kubernetes mounts secrets.
    std::filesystem::create_symlink(write(folder / "secret", kGood), folder / "link");
    CHECK(objection(folder / "link") == "");
  }

  TEST_CASE("secret file: a new file has mode 0600 and one line with 32 random bytes") {
    const TemporaryFolder folder;
    const mode_t before = ::umask(0);
    write_new_secret(folder / "one");
    write_new_secret(folder / "two");
    ::umask(before);
    struct stat status {};
    REQUIRE(::stat((folder / "one").c_str(), &status) == 0);
    CHECK((status.st_mode & 07777U) == 0600);
    CHECK(status.st_size == 65);
    const auto one = read_secret(folder / "one", "one");
    CHECK(one.bytes().find_first_not_of("0123456789abcdef") == std::string::npos);
    CHECK(one.bytes() != read_secret(folder / "two", "two").bytes());
  }

  TEST_CASE("secret file: creation is rejected where other users could replace the file") {
    const TemporaryFolder folder;
    const auto parent = folder / "parent";
    const auto path = parent + "/secret";
    struct Case {
      mode_t mode;
      bool is_written;
    };
    for (const auto& each :
         {Case{0700, true}, Case{0775, true}, Case{01777, true}, Case{0777, false}}) {
      CAPTURE(each.mode);
      std::filesystem::create_directory(parent);
      REQUIRE(::chmod(parent.c_str(), each.mode) == 0);
      std::string problem;
      try {
        write_new_secret(path);
      } catch (const Error& error) {
        CHECK(error.code() == Errc::system);
        problem = error.what();
      }
      CHECK(problem == (each.is_written
                            ? ""
                            : path + ": other users can replace files in its folder; give a file "
                                     "in a folder that others cannot write to"));
      CHECK(std::filesystem::exists(path) == each.is_written);
      std::filesystem::remove_all(parent);
    }
  }

  TEST_CASE("secret file: creation does not overwrite a file or leave a partial one") {
    const TemporaryFolder folder;
    const auto path = write(folder / "secret", kGood);
    CHECK_THROWS_WITH_AS(
        write_new_secret(path),
        (path +
         ": exists already, and other nodes may use it; remove it first, or give another name")
            .c_str(),
        Error);
    CHECK(read_secret(path, "it").bytes() == kGood);
    CHECK_THROWS_AS(write_new_secret(folder / "no/such/folder"), Error);
    rlimit limit{};
    REQUIRE(::getrlimit(RLIMIT_FSIZE, &limit) == 0);
    const rlimit nothing = {.rlim_cur = 0, .rlim_max = limit.rlim_max};
    const auto before = std::signal(SIGXFSZ, SIG_IGN);
    ::setrlimit(RLIMIT_FSIZE, &nothing);
    std::string problem;
    try {
      write_new_secret(folder / "large");
    } catch (const Error& error) {
      problem = error.what();
    }
    ::setrlimit(RLIMIT_FSIZE, &limit);
    std::signal(SIGXFSZ, before);
    CHECK(problem ==
          (folder / "large") +
              ": cannot be written: File too large; give a file in a folder that exists, "
              "is writable and has free space");
    CHECK_FALSE(std::filesystem::exists(folder / "large"));
  }
}

}  // namespace secret_file_test
