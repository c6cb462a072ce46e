#include "rendezvous/base/random_bytes.hpp"
#include "tests/support/failure_text.hpp"
#include "tests/support/temporary_folder.hpp"
#include "worker_runtime/data/checkpoint_file.hpp"
#include <ddprun/checkpoint.hpp>
#include <ddprun/error.hpp>

#include <doctest/doctest.h>

#include <array>
#include <chrono>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <iterator>
#include <sys/stat.h>
#include <unistd.h>

namespace checkpoint_test {

namespace fs = std::filesystem;
using ddprun::Checkpoint;
using ddprun::CheckpointDirectory;
using ddprun::Error;
using ddprun::test::describe_failure;
using ddprun::test::TemporaryFolder;
using namespace std::chrono_literals;

namespace {

Checkpoint sample(std::int64_t step) {
  Checkpoint checkpoint{.step = step, .sections = {}};
  put_section(checkpoint, "parameters", std::array{1.5f, -2.0f, static_cast<float>(step)});
  put_section(checkpoint, "sampler", std::array<std::int64_t, 2>{step, 7});
  put_section(checkpoint, "empty", std::vector<float>{});
  return checkpoint;
}

std::string read_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void write_file(const fs::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

/// Locks a file as a writer does; returns the descriptor that holds the lock.
int lock_file(const fs::path& path, const std::string& content) {
  write_file(path, content);
  const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  struct flock lock {};
  lock.l_type = F_WRLCK;
  REQUIRE(::fcntl(fd, F_OFD_SETLK, &lock) == 0);
  return fd;
}

/// A directory that records its log.
struct Fixture {
  TemporaryFolder folder;
  std::vector<std::string> lines;  ///< warnings
  std::vector<std::string> notes;  ///< other messages
  CheckpointDirectory directory{
      folder.path(), {.keep = 3, .log = [this](ddprun::LogLevel level, std::string_view line) {
                        (level == ddprun::LogLevel::warn ? lines : notes).emplace_back(line);
                      }}};

  fs::path file(const std::string& name) const { return folder.path() / name; }

  /// Returns whether `bytes` in place of the newest checkpoint are detected, and the one before is
  /// loaded.
  bool is_refused(const std::string& bytes) {
    write_file(file("step_000000000002.ckpt"), bytes);
    lines.clear();
    return directory.load_newest() == sample(1) && lines.size() == 1;
  }
};

}  // namespace

TEST_SUITE("checkpoint") {
  TEST_CASE_FIXTURE(Fixture, "checkpoint: loading returns the newest saved data") {
    CHECK_FALSE(directory.load_newest());
    directory.save(sample(1));
    CHECK(directory.load_newest() == sample(1));
    directory.save(sample(20));
    CHECK(directory.load_newest() == sample(20));
    CHECK(directory.steps() == std::vector<std::int64_t>{1, 20});
    CHECK(lines.empty());
    CHECK(notes == std::vector<std::string>{
                       "no checkpoint in " + folder.path().string(),
                       "checkpoint " + file("step_000000000001.ckpt").string() + " is loaded",
                       "checkpoint " + file("step_000000000020.ckpt").string() + " is loaded"});
  }

  TEST_CASE_FIXTURE(Fixture, "checkpoint: creating a missing directory is reported once") {
    const auto path = folder.path() / "of" / "a" / "mistyped" / "name";
    const auto log = [&](ddprun::LogLevel, std::string_view line) { notes.emplace_back(line); };
    notes.clear();
    const CheckpointDirectory made(path, {.log = log});
    const CheckpointDirectory found(path, {.log = log});
    CHECK(notes == std::vector<std::string>{"directory " + path.string() + " is new"});
    notes.clear();
    const CheckpointDirectory other(folder.path() / "other" / "", {.log = log});
    CHECK(notes == std::vector<std::string>{"directory " + file("other").string() + "/ is new"});
  }

  TEST_CASE_FIXTURE(Fixture,
                    "checkpoint: loading fails if none of the existing checkpoints is usable") {
    directory.save(sample(1));
    directory.save(sample(2));
    write_file(file("step_000000000001.ckpt"), "older");
    write_file(file("step_000000000002.ckpt"), "short");
    CHECK_THROWS_WITH_AS(
        directory.load_newest(),
        doctest::Contains(("none of the 2 checkpoints in " + folder.path().string() +
                           " can be used: checkpoint " + file("step_000000000002.ckpt").string() +
                           " cannot be used: it has 5 bytes, too few")
                              .c_str()),
        ddprun::Error);
    CHECK(lines.size() == 2);
  }

  TEST_CASE_FIXTURE(Fixture, "checkpoint: a checkpoint without sections is valid") {
    directory.save({.step = 0, .sections = {}});
    CHECK(directory.load_newest() == Checkpoint{});
  }

  TEST_CASE_FIXTURE(Fixture,
                    "checkpoint: the example of docs/checkpoint.md matches byte for byte") {
    Checkpoint checkpoint{.step = 258, .sections = {}};
    put_section(checkpoint, "a", std::array<std::uint8_t, 2>{0xff, 0xfe});
    directory.save(checkpoint);
    CHECK(ddprun::hexadecimal(read_file(file("step_000000000258.ckpt"))) ==
          "44445052554e434b010000000100000002010000000000003300000000000000"
          "01000000020000000000000061fffedc00a5d4");
  }

  TEST_CASE_FIXTURE(Fixture, "checkpoint: a second save of the same step replaces the first") {
    directory.save(sample(5));
    auto other = sample(5);
    put_section(other, "parameters", std::array{0.0f});
    directory.save(other);
    CHECK(directory.load_newest() == other);
    CHECK(directory.steps() == std::vector<std::int64_t>{5});
  }

  TEST_CASE_FIXTURE(Fixture, "checkpoint: only the requested number of checkpoints is kept") {
    for (std::int64_t step = 1; step <= 6; ++step) directory.save(sample(step));
    CHECK(directory.steps() == std::vector<std::int64_t>{4, 5, 6});
  }

  TEST_CASE_FIXTURE(Fixture, "checkpoint: damaged files do not count as kept checkpoints") {
    for (const char* name : {"step_000000000008.ckpt", "step_000000000009.ckpt"}) {
      write_file(file(name), "damaged");
    }
    for (std::int64_t step = 1; step <= 4; ++step) directory.save(sample(step));
    CHECK(directory.steps() == std::vector<std::int64_t>{2, 3, 4, 8, 9});
    CHECK(directory.load_newest() == sample(4));
  }

  TEST_CASE("checkpoint: files that a load found damaged do not count as kept checkpoints") {
    const TemporaryFolder folder;
    CheckpointDirectory directory(folder.path(), {.keep = 2});
    using Steps = std::vector<std::int64_t>;
    directory.save(sample(100));
    directory.save(sample(200));
    write_file(folder.path() / "step_000000000200.ckpt", "damaged");
    CHECK(directory.load_newest() == sample(100));
    CheckpointDirectory copy = directory;
    copy.save(sample(150));
    CHECK(copy.steps() == Steps{100, 150, 200});
    copy.save(sample(250));
    CHECK(copy.steps() == Steps{150, 200, 250});
    copy.save(sample(300));
    CHECK(copy.steps() == Steps{250, 300});
  }

  TEST_CASE("checkpoint: a damaged file counts as kept once its step is saved again") {
    const TemporaryFolder folder;
    CheckpointDirectory directory(folder.path(), {.keep = 2});
    directory.save(sample(100));
    directory.save(sample(200));
    write_file(folder.path() / "step_000000000200.ckpt", "damaged");
    CHECK(directory.load_newest() == sample(100));
    directory.save(sample(200));
    directory.save(sample(300));
    CHECK(directory.steps() == std::vector<std::int64_t>{200, 300});
  }

  TEST_CASE_FIXTURE(Fixture, "checkpoint: each flipped byte is detected") {
    directory.save(sample(1));
    directory.save(sample(2));
    const auto good = read_file(file("step_000000000002.ckpt"));
    for (std::size_t i = 0; i < good.size(); ++i) {
      for (const int mask : {0x01, 0x80, 0xff}) {
        CAPTURE(i);
        auto bytes = good;
        bytes[i] = static_cast<char>(bytes[i] ^ mask);
        CHECK(is_refused(bytes));
      }
    }
    CHECK_FALSE(is_refused(good));
  }

  TEST_CASE_FIXTURE(Fixture, "checkpoint: each truncation and each addition is detected") {
    directory.save(sample(1));
    directory.save(sample(2));
    const auto good = read_file(file("step_000000000002.ckpt"));
    for (std::size_t bytes = 0; bytes < good.size(); ++bytes) {
      CAPTURE(bytes);
      CHECK(is_refused(good.substr(0, bytes)));
    }
    CHECK(is_refused(good + '\0'));
    CHECK(is_refused(good + good));
    CHECK(is_refused(std::string(good.size(), '\0')));
  }

  TEST_CASE_FIXTURE(Fixture, "checkpoint: lengths beyond the file's size are rejected") {
    directory.save(sample(1));
    directory.save(sample(2));
    const auto good = read_file(file("step_000000000002.ckpt"));
    auto bytes = good;
    std::memset(bytes.data() + 32 + 4, 0xff, 8);  // length of the first section's content
    CHECK(is_refused(bytes));
    CHECK(lines[0].find("a section claims more bytes than there are") != std::string::npos);
    bytes = good;
    std::memset(bytes.data() + 32, 0xff, 4);  // length of its name
    CHECK(is_refused(bytes));
    bytes = good;
    std::memset(bytes.data() + 12, 0xff, 4);  // the number of sections
    CHECK(is_refused(bytes));
    CHECK(lines[0].find("4294967295 sections, at most 4096") != std::string::npos);
  }

  TEST_CASE_FIXTURE(Fixture, "checkpoint: an unusable file is logged with the reason") {
    directory.save(sample(1));
    CHECK(is_refused("hello, this is not a checkpoint at all"));
    CHECK(lines[0] == "checkpoint " + file("step_000000000002.ckpt").string() +
                          " cannot be used: it does not begin as a checkpoint does; trying the "
                          "one before it");
    CHECK(is_refused(read_file(file("step_000000000001.ckpt"))));
    CHECK(lines[0].find("it holds step 1") != std::string::npos);
    CHECK(is_refused("short"));
    CHECK(lines[0].find("it has 5 bytes, too few") != std::string::npos);
  }

  TEST_CASE_FIXTURE(Fixture,
                    "checkpoint: a directory or FIFO with a checkpoint's name is skipped") {
    directory.save(sample(1));
    fs::create_directory(file("step_000000000002.ckpt"));
    REQUIRE(::mkfifo(file("step_000000000003.ckpt").c_str(), 0600) == 0);
    CHECK(directory.load_newest() == sample(1));
    CHECK(lines.size() == 2);
  }

  TEST_CASE_FIXTURE(Fixture, "checkpoint: files with other names are ignored") {
    for (const char* name : {"step_1.ckpt", "step_00000000000x.ckpt", "step_.ckpt", "notes.txt",
                             "step_99999999999999999999.ckpt", "step_-00000000001.ckpt"}) {
      write_file(file(name), "foreign");
    }
    directory.save(sample(1));
    CHECK(directory.steps() == std::vector<std::int64_t>{1});
    CHECK(fs::exists(file("notes.txt")));
  }

  TEST_CASE("checkpoint: temporary files of a dead writer are removed") {
    const TemporaryFolder folder;
    CheckpointDirectory(folder.path()).save(sample(1));
    const auto leftover = folder.path() / "step_000000000002.ckpt.4711.12.tmp";
    write_file(leftover, "half a check");
    const CheckpointDirectory directory(folder.path());
    CHECK_FALSE(fs::exists(leftover));
    CHECK(directory.load_newest() == sample(1));
  }

  TEST_CASE("checkpoint: a live writer's temporary file is kept") {
    const TemporaryFolder folder;
    CheckpointDirectory writer(folder.path());
    writer.save(sample(1));
    const auto temporary = folder.path() / "step_000000000002.ckpt.4711.12.tmp";
    write_file(temporary, "half a check");
    const CheckpointDirectory reader(folder.path());
    CHECK(fs::exists(temporary));
    CHECK(reader.load_newest() == sample(1));
  }

  TEST_CASE("checkpoint: a second writer is rejected while the first one is alive") {
    const TemporaryFolder folder;
    CheckpointDirectory second(folder.path(), {.takeover_timeout = 0ms});
    {
      CheckpointDirectory first(folder.path());
      first.save(sample(1));
      CHECK_THROWS_WITH_AS(second.save(sample(2)),
                           ("checkpoint directory " + folder.path().string() +
                            " is being written by this process already: give each run its own")
                               .c_str(),
                           Error);
      auto copy = first;
      copy.save(sample(3));
    }
    second.save(sample(4));
    CHECK(second.steps() == std::vector<std::int64_t>{1, 3, 4});
  }

  TEST_CASE("checkpoint: a second writer is rejected even if the lock file was removed") {
    const TemporaryFolder folder;
    const auto lock = folder.path() / "writer.lock";
    CheckpointDirectory second(folder.path(), {.takeover_timeout = 0ms});
    {
      CheckpointDirectory first(folder.path());
      first.save(sample(1));
      fs::remove(lock);
      const auto temporary = folder.path() / "step_000000000002.ckpt.4711.12.tmp";
      write_file(temporary, "half a check");
      CheckpointDirectory third(folder.path(), {.takeover_timeout = 0ms});
      CHECK(fs::exists(temporary));
      CHECK_THROWS_WITH_AS(second.save(sample(2)),
                           ("checkpoint directory " + folder.path().string() +
                            " is being written by another process: give each run its own")
                               .c_str(),
                           Error);
      CHECK_FALSE(fs::exists(lock));
      first.save(sample(3));
      CHECK(fs::exists(lock));
      CHECK_THROWS_AS(third.claim(), Error);
    }
    second.save(sample(4));
    CHECK(second.steps() == std::vector<std::int64_t>{1, 3, 4});
  }

  TEST_CASE("checkpoint: a claim waits for writers whose end cannot be observed") {
    char host[65] = {};
    REQUIRE(::gethostname(host, sizeof host - 1) == 0);
    // Before the writer has written it, on another host, with an equal number in another namespace.
    for (const std::string& content :
         {std::string(), std::string("4711 elsewhere\n"),
          std::to_string(::getpid()) + " " + std::string(host) + "\n"}) {
      CAPTURE(content);
      const TemporaryFolder folder;
      const int writer = lock_file(folder.path() / "writer.lock", content);
      int waits = 0;
      const auto end_writer = [&](ddprun::LogLevel level, std::string_view) {
        if (level == ddprun::LogLevel::warn && ++waits == 1) ::close(writer);
      };
      CheckpointDirectory successor(folder.path(), {.takeover_timeout = 60s, .log = end_writer});
      CHECK_NOTHROW(successor.claim());
      CHECK(waits == 1);
      if (waits == 0) ::close(writer);
    }
  }

  TEST_CASE("checkpoint: a failed claim names a writer that was unknown when it began") {
    const TemporaryFolder folder;
    const auto file = folder.path() / "writer.lock";
    const int writer = lock_file(file, "");
    bool has_waited = false;
    const auto write_name = [&](ddprun::LogLevel, std::string_view) {
      has_waited = true;
      write_file(file, "4711 elsewhere\n");
    };
    CheckpointDirectory second(folder.path(), {.takeover_timeout = 20ms, .log = write_name});
    std::string failure;
    // A claim whose thread has no CPU until its deadline does not wait.
    while (!has_waited) failure = describe_failure([&] { second.claim(); });
    CHECK(failure == "usage: checkpoint directory " + folder.path().string() +
                         " is being written by process 4711 on elsewhere: give each run its own");
    ::close(writer);
  }

  TEST_CASE("checkpoint: a writer cannot save after its lock file was replaced") {
    const TemporaryFolder folder;
    CheckpointDirectory first(folder.path());
    first.save(sample(1));
    // Like a writer on another host of an NFS, whose locks of directories are not visible here.
    fs::remove(folder.path() / "writer.lock");
    const int other = lock_file(folder.path() / "writer.lock", "4711 elsewhere\n");
    CHECK_THROWS_WITH_AS(first.save(sample(2)),
                         ((folder.path() / "writer.lock").string() +
                          " was removed and then locked by process 4711 on elsewhere: give each "
                          "run its own directory")
                             .c_str(),
                         Error);
    CHECK(first.steps() == std::vector<std::int64_t>{1});
    CHECK(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()) == 2);
    ::close(other);
  }

  TEST_CASE_FIXTURE(Fixture, "checkpoint: steps and sections out of bounds are rejected") {
    CHECK_THROWS_WITH_AS(directory.save({.step = -1, .sections = {}}),
                         "checkpoint: step -1 is negative", Error);
    Checkpoint checkpoint;
    checkpoint.sections[std::string(ddprun::kSectionNameBytesMax, 'n')] = {};
    CHECK_NOTHROW(directory.save(checkpoint));
    checkpoint.sections[std::string(ddprun::kSectionNameBytesMax + 1, 'n')] = {};
    CHECK_THROWS_AS(directory.save(checkpoint), Error);
    checkpoint.sections.clear();
    for (std::size_t i = 0; i < ddprun::kCheckpointSectionsMax; ++i) {
      checkpoint.sections[std::to_string(i)] = {};
    }
    directory.save(checkpoint);
    CHECK(directory.load_newest() == checkpoint);
    checkpoint.sections["one more"] = {};
    CHECK_THROWS_WITH_AS(directory.save(checkpoint),
                         "checkpoint: 4097 sections, at most 4096 are possible", Error);
  }

  TEST_CASE("checkpoint: keeping fewer than two checkpoints is rejected") {
    const TemporaryFolder folder;
    CHECK_THROWS_AS(CheckpointDirectory(folder.path(), {.keep = 1}), Error);
  }

  TEST_CASE("checkpoint: a missing directory is created with its parents") {
    const TemporaryFolder folder;
    const auto path = folder.path() / "a" / "b";
    CheckpointDirectory(path).save(sample(1));
    CHECK(CheckpointDirectory(path / "").load_newest() == sample(1));
    write_file(folder.path() / "file", "");
    CHECK_THROWS_AS(CheckpointDirectory(folder.path() / "file"), Error);
  }

  TEST_CASE("checkpoint: get_section() fills only an array of the section's size") {
    const auto checkpoint = sample(3);
    std::array<float, 3> parameters{};
    get_section(checkpoint, "parameters", parameters);
    CHECK(parameters == std::array{1.5f, -2.0f, 3.0f});
    std::vector<float> short_by_one(2);
    CHECK_THROWS_WITH_AS(get_section(checkpoint, "parameters", short_by_one),
                         "checkpoint of step 3: section \"parameters\" has 12 bytes, expected 8",
                         Error);
    CHECK_THROWS_WITH_AS(get_section(checkpoint, "optimizer", parameters),
                         "checkpoint of step 3 has no section \"optimizer\"", Error);
  }
}

}  // namespace checkpoint_test
