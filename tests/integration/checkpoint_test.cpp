// Checkpoints with faults of real processes and disks: kill -9, a full disk, concurrent runs.
#include "tests/support/temporary_folder.hpp"
#include <ddprun/checkpoint.hpp>
#include <ddprun/error.hpp>

#include <doctest/doctest.h>
#include <sched.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <fcntl.h>
#include <functional>
#include <random>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

namespace checkpoint_test {

namespace fs = std::filesystem;
using ddprun::Checkpoint;
using ddprun::CheckpointDirectory;
using ddprun::Error;
using ddprun::test::TemporaryFolder;

namespace {

/// Exit code of a child whose conditions are not possible on this machine.
constexpr int kNotPossibleHere = 77;

/// Content that depends on the step, so that a mixture of two is detected.
Checkpoint sample(std::int64_t step, std::size_t elements) {
  Checkpoint checkpoint{.step = step, .sections = {}};
  put_section(checkpoint, "parameters", std::vector<std::int64_t>(elements, step));
  put_section(checkpoint, "optimizer", std::vector<std::int64_t>(elements / 2, -step));
  return checkpoint;
}

/// Forks; the child exits with the result of `body`.
pid_t fork_child(const std::function<int()>& body) {
  const pid_t pid = ::fork();
  REQUIRE(pid >= 0);
  if (pid == 0) {
    int result = 99;
    try {
      result = body();
    } catch (...) {
    }
    ::_exit(result);
  }
  return pid;
}

int wait_for(pid_t pid) {
  int status = 0;
  REQUIRE(::waitpid(pid, &status, 0) == pid);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

struct Pipe {
  std::array<int, 2> fds{};
  Pipe() { REQUIRE(::pipe2(fds.data(), O_CLOEXEC) == 0); }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  ~Pipe() {
    close_write_end();
    ::close(fds[0]);
  }
  void close_write_end() {
    if (fds[1] >= 0) ::close(fds[1]);
    fds[1] = -1;
  }
};

/// Returns the steps that the writer has written to the pipe; blocks until there is one or the
/// writer is dead.
std::vector<std::int64_t> read_steps(int fd) {
  std::vector<std::int64_t> steps(512);
  const auto got = ::read(fd, steps.data(), steps.size() * sizeof steps[0]);
  steps.resize(got > 0 ? static_cast<std::size_t>(got) / sizeof steps[0] : 0);
  return steps;
}

std::size_t count_temporaries(const fs::path& folder) {
  return static_cast<std::size_t>(
      std::count_if(fs::directory_iterator(folder), fs::directory_iterator(),
                    [](const auto& entry) { return entry.path().extension() == ".tmp"; }));
}

/// Creates a full disk for this process alone: a tmpfs of 1 MiB in its own mount namespace.
bool mount_small_disk(const fs::path& path) {
  if (::unshare(CLONE_NEWNS) != 0 && ::unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return false;
  if (::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return false;
  return ::mount("tmpfs", path.c_str(), "tmpfs", 0, "size=1m") == 0;
}

bool small_file_limit(const fs::path&) {
  const rlimit limit{.rlim_cur = 1 << 20, .rlim_max = 1 << 20};
  return ::setrlimit(RLIMIT_FSIZE, &limit) == 0;
}

/// In a process whose disk `prepare` limits: returns 0 if a failed save behaves as documented,
/// otherwise the number of the violation.
int save_without_space(const fs::path& folder, bool (*prepare)(const fs::path&),
                       const std::string& reason) {
  if (!prepare(folder)) return kNotPossibleHere;
  CheckpointDirectory directory(folder);
  directory.save(sample(1, 1000));
  try {
    directory.save(sample(2, 1'000'000));
    return 1;
  } catch (const Error& error) {
    const std::string text = error.what();
    if (error.code() != ddprun::Errc::system) return 2;
    if (text.find("step_000000000002.ckpt") == std::string::npos) return 3;
    if (text.find(reason) == std::string::npos) return 4;
    if (text.find("earlier checkpoints are untouched") == std::string::npos) return 5;
  }
  if (count_temporaries(folder) != 0) return 6;
  if (directory.load_newest() != sample(1, 1000)) return 7;
  directory.save(sample(3, 1000));
  return directory.load_newest() == sample(3, 1000) ? 0 : 8;
}

}  // namespace

TEST_SUITE("checkpoint on a real disk") {
  TEST_CASE("checkpoint: a writer killed at any time leaves the last complete one") {
    constexpr unsigned kSeed = 20240607;
    constexpr int kKills = 60;
    std::mt19937 random(kSeed);
    const TemporaryFolder folder;
    std::int64_t newest = 0;
    for (int kill = 0; kill < kKills; ++kill) {
      CAPTURE(kill);
      Pipe completed;
      const pid_t pid = fork_child([&] {
        CheckpointDirectory directory(folder.path(), {.keep = 2});
        for (std::int64_t step = newest + 1;; ++step) {
          directory.save(sample(step, 20'000));
          if (::write(completed.fds[1], &step, sizeof step) < 0) return 1;
        }
        return 0;
      });
      completed.close_write_end();
      // The moment is random: some saves, then some microseconds into the next one.
      const auto saves = random() % 3;
      const long nanoseconds = static_cast<long>(random() % 2000) * 1000;
      for (std::size_t seen = 0; seen < saves;) {
        const auto steps = read_steps(completed.fds[0]);
        REQUIRE_FALSE(steps.empty());
        newest = steps.back();
        seen += steps.size();
      }
      const timespec moment{.tv_sec = 0, .tv_nsec = nanoseconds};
      ::nanosleep(&moment, nullptr);
      ::kill(pid, SIGKILL);
      REQUIRE(wait_for(pid) == 128 + SIGKILL);
      for (auto steps = read_steps(completed.fds[0]); !steps.empty();
           steps = read_steps(completed.fds[0])) {
        newest = steps.back();
      }

      std::vector<std::string> damaged;
      const CheckpointDirectory directory(
          folder.path(), {.keep = 2, .log = [&](ddprun::LogLevel level, std::string_view line) {
                            if (level == ddprun::LogLevel::warn) damaged.emplace_back(line);
                          }});
      const auto loaded = directory.load_newest();
      CHECK(damaged.empty());
      CHECK(count_temporaries(folder.path()) == 0);
      // The step after the last reported one may be complete as well.
      if (newest == 0 && !loaded) continue;
      REQUIRE(loaded);
      CHECK((loaded->step == newest || loaded->step == newest + 1));
      CHECK(*loaded == sample(loaded->step, 20'000));
      newest = loaded->step;
    }
    CHECK(newest > 10);
    CheckpointDirectory(folder.path(), {.keep = 2}).save(sample(newest + 1, 10));
    CHECK(CheckpointDirectory(folder.path()).steps().size() == 2);
  }

  TEST_CASE("checkpoint: a save beyond the file size limit fails and keeps earlier checkpoints") {
    const TemporaryFolder folder;
    CHECK(wait_for(fork_child([&] {
            return save_without_space(folder.path(), small_file_limit, "File too large");
          })) == 0);
  }

  TEST_CASE("checkpoint: a file size limit of 0 does not prevent a claim") {
    const TemporaryFolder folder;
    CHECK(wait_for(fork_child([&] {
            const rlimit limit{.rlim_cur = 0, .rlim_max = 0};
            if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) return 1;
            CheckpointDirectory(folder.path()).claim();
            return 0;
          })) == 0);
  }

  TEST_CASE("checkpoint: a save to a full disk fails and keeps earlier checkpoints") {
    const TemporaryFolder folder;
    const int result = wait_for(fork_child([&] {
      return save_without_space(folder.path(), mount_small_disk, "No space left on device");
    }));
    if (result == kNotPossibleHere) {
      MESSAGE("no name spaces here: a full disk could not be made");
    } else {
      CHECK(result == 0);
    }
  }

  TEST_CASE("checkpoint: a writer waits until a dying writer has released the directory") {
    const TemporaryFolder folder;
    Pipe saved;
    Pipe end;
    const pid_t predecessor = fork_child([&] {
      ::close(end.fds[1]);
      CheckpointDirectory directory(folder.path());
      directory.save(sample(1, 10));
      ::close(::creat((folder.path() / "step_000000000002.ckpt.1.2.tmp").c_str(), 0600));
      if (::write(saved.fds[1], "s", 1) != 1) return 1;
      char byte = 0;
      return static_cast<int>(::read(end.fds[0], &byte, 1));  // until the other end is closed
    });
    char byte = 0;
    REQUIRE(::read(saved.fds[0], &byte, 1) == 1);
    const pid_t successor = fork_child([&] {
      CheckpointDirectory directory(folder.path());
      if (::write(saved.fds[1], "t", 1) != 1) return 1;
      end.close_write_end();
      directory.save(sample(2, 10));
      return 0;
    });
    REQUIRE(::read(saved.fds[0], &byte, 1) == 1);
    end.close_write_end();
    CHECK(wait_for(predecessor) == 0);
    CHECK(wait_for(successor) == 0);
    CHECK(count_temporaries(folder.path()) == 0);
    CHECK(CheckpointDirectory(folder.path()).load_newest() == sample(2, 10));
  }

  TEST_CASE("checkpoint: a second run in the same directory fails and names the first process") {
    const TemporaryFolder folder;
    Pipe saved;
    Pipe end;
    const pid_t first = fork_child([&] {
      end.close_write_end();
      CheckpointDirectory directory(folder.path());
      directory.save(sample(1, 10));
      if (::write(saved.fds[1], "s", 1) != 1) return 1;
      char byte = 0;
      return static_cast<int>(::read(end.fds[0], &byte, 1));
    });
    char byte = 0;
    REQUIRE(::read(saved.fds[0], &byte, 1) == 1);
    std::string logged;
    CheckpointDirectory second(
        folder.path(), {.takeover_timeout = std::chrono::milliseconds(20),
                        .log = [&](ddprun::LogLevel, std::string_view line) { logged += line; }});
    std::string text;
    try {
      second.claim();
    } catch (const Error& error) {
      text = error.what();
    }
    CHECK(text.find("is being written by process " + std::to_string(first) + " on ") !=
          std::string::npos);
    CHECK(logged.find("process " + std::to_string(first) + " on ") != std::string::npos);
    CHECK(logged.ends_with(": waiting for it to end"));
    CHECK(second.steps() == std::vector<std::int64_t>{1});
    end.close_write_end();
    CHECK(wait_for(first) == 0);
    second.claim();
    CHECK_THROWS_AS(
        CheckpointDirectory(folder.path(), {.takeover_timeout = std::chrono::milliseconds(0)})
            .claim(),
        Error);
    second.save(sample(2, 10));
    CHECK(second.load_newest() == sample(2, 10));
  }
}

}  // namespace checkpoint_test
