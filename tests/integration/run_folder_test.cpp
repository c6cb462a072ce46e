// Folders of a run that another user renames and replaces.
#include "launcher/agent/run_folder.hpp"

#include "launcher/plan/log_layout.hpp"
#include "launcher/process/own_folder.hpp"
#include "tests/support/temporary_folder.hpp"
#include <ddprun/error.hpp>

#include <doctest/doctest.h>

#include <cerrno>
#include <fcntl.h>
#include <fstream>
#include <optional>
#include <sys/stat.h>

namespace run_folder_test {

using namespace ddprun;
using namespace ddprun::test;
namespace fs = std::filesystem;

namespace {

LaunchPlan plan_with(const fs::path& log_dir) {
  LaunchPlan plan;
  plan.temporary_directory = log_dir.parent_path();
  plan.log_dir = log_dir;
  plan.run_folder_name = "run_random";
  return plan;
}

LaunchPlan plan_without_logs(const fs::path& temporary_directory) {
  LaunchPlan plan;
  plan.temporary_directory = temporary_directory;
  return plan;
}

unsigned mode_of(const fs::path& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 ? status.st_mode & 0777U : 0U;
}

void write(const HeldPath& file) {
  CHECK(file.open_regular(O_WRONLY | O_CREAT, 0644).get() >= 0);
}

/// Replaces the folder by a link to `other`; returns its new path.
fs::path swap(const fs::path& folder, const fs::path& other) {
  const auto moved = folder.parent_path() / "moved";
  fs::rename(folder, moved);
  fs::create_directory_symlink(other, folder);
  return moved;
}

class UmaskOf {
 public:
  explicit UmaskOf(mode_t mask) : before_(::umask(mask)) {}
  UmaskOf(const UmaskOf&) = delete;
  UmaskOf& operator=(const UmaskOf&) = delete;
  ~UmaskOf() { ::umask(before_); }

 private:
  mode_t before_;
};

}  // namespace

TEST_SUITE("run folder") {
  TEST_CASE("run folder: the folder is private and subfolders and --log_dir follow the umask") {
    const UmaskOf mask(0022);
    const TemporaryFolder folder;
    const auto logs = folder.path() / "new" / "logs";
    RunFolder run(plan_with(logs));
    const auto worker = run.make_worker_folder(0, 1);
    CHECK(run.path() == logs / "run_random");
    CHECK(worker.path() == run.path() / "attempt_0" / "1");
    CHECK(mode_of(logs) == 0755);
    CHECK(mode_of(run.path()) == 0700);
    CHECK(mode_of(worker.path()) == 0755);
    const RunFolder temporary(plan_without_logs(folder.path()));
    CHECK(mode_of(temporary.path()) == 0700);
  }

  TEST_CASE("run folder: files are created in the opened folders even if they were replaced") {
    const TemporaryFolder folder;
    const auto other = folder.path() / "other";
    fs::create_directory(other);
    RunFolder run(plan_with(folder.path() / "logs"));
    const auto first = run.make_worker_folder(0, 0);
    run.note_workers_started();
    const auto moved = swap(run.path(), other);
    write(first / "file");
    write(run.make_worker_folder(0, 1) / "file");
    run.end_attempt(0);
    write(run.make_worker_folder(1, 0) / "file");
    write(run.file("file"));
    CHECK(fs::is_empty(other));
    for (const auto* file : {"attempt_0/0/file", "attempt_0/1/file", "attempt_1/0/file", "file"})
      CHECK(fs::exists(moved / file));
  }

  TEST_CASE("run folder: links in place of attempt or worker folders are not followed") {
    const TemporaryFolder folder;
    const auto other = folder.path() / "other";
    fs::create_directory(other);
    RunFolder run(plan_with(folder.path() / "logs"));
    const auto worker = run.make_worker_folder(0, 0);
    run.note_workers_started();
    const auto moved = swap(worker.path(), other);
    CHECK((worker / "file").open_regular(O_WRONLY | O_CREAT, 0644).get() < 0);
    CHECK(errno == ELOOP);
    fs::create_directory_symlink(other, run.path() / "attempt_1");
    CHECK_THROWS_WITH_AS(run.make_worker_folder(1, 0),
                         doctest::Contains("/attempt_1/0 cannot be created: "), Error);
    CHECK(fs::is_empty(other));
  }

  TEST_CASE("run folder: symbolic links in --log_dir are followed only when it is created") {
    const TemporaryFolder folder;
    const auto first = folder.path() / "first", second = folder.path() / "second";
    for (const auto& path : {first, second}) fs::create_directory(path);
    const auto link = folder.path() / "link";
    fs::create_directory_symlink(first, link);
    RunFolder run(plan_with(link / "logs"));
    run.make_worker_folder(0, 0);
    run.note_workers_started();
    fs::remove(link);
    fs::create_directory_symlink(second, link);
    run.make_worker_folder(1, 0);
    CHECK(fs::exists(first / "logs/run_random/attempt_1/0"));
    CHECK(fs::is_empty(second));
  }

  TEST_CASE("run folder: removed folders are created again") {
    const TemporaryFolder folder;
    RunFolder run(plan_with(folder.path() / "logs"));
    RunFolder temporary(plan_without_logs(folder.path()));
    for (auto* one : {&run, &temporary}) {
      write(one->make_worker_folder(0, 0) / "file");
      one->note_workers_started();
      one->end_attempt(0);
      const auto descriptor = one->descriptor();
      fs::remove_all(one->path());
      write(one->make_worker_folder(1, 0) / "file");
      CHECK(fs::exists(one->path() / "attempt_1/0/file"));
      CHECK(mode_of(one->path()) == 0700);
      CHECK(one->descriptor() == descriptor);
    }
  }

  TEST_CASE("run folder: a folder that replaced the temporary folder is not removed") {
    const TemporaryFolder folder;
    const auto precious = folder.path() / "precious";
    fs::create_directories(precious / "attempt_0/0");
    std::ofstream(precious / "attempt_0/0/file") << "text";
    fs::path place;
    {
      RunFolder run(plan_without_logs(folder.path()));
      place = run.path();
      const auto worker = run.make_worker_folder(0, 0);
      fs::create_directory_symlink(precious, worker.path() / "link");
      std::ofstream(worker.path() / "file") << "text";
      run.note_workers_started();
      fs::rename(run.path(), folder.path() / "moved");
      fs::rename(precious, run.path());
      run.end_attempt(0);
      CHECK(fs::is_empty(folder.path() / "moved"));
      write(run.make_worker_folder(1, 0) / "file");
    }
    CHECK(fs::exists(place / "attempt_0/0/file"));
    CHECK(fs::is_empty(folder.path() / "moved"));
  }

  TEST_CASE("run folder: created folders are removed if no worker was started") {
    const TemporaryFolder folder;
    {
      RunFolder run(plan_with(folder.path() / "new" / "logs"));
      RunFolder inner(run, "preflight");
      write(inner.make_worker_folder(0, 0) / "empty");
      write(run.make_worker_folder(0, 0) / "empty");
      CHECK(inner.path() == run.path() / "preflight");
      CHECK(fs::exists(run.path() / "preflight/attempt_0/0/empty"));
    }
    CHECK(fs::is_empty(folder.path()));
    {
      RunFolder run(plan_with(folder.path() / "logs"));
      RunFolder inner(run, "preflight");
      inner.make_worker_folder(0, 0);
      std::ofstream(run.make_worker_folder(0, 0).path() / "file") << "text";
      run.note_workers_started();
    }
    CHECK(fs::exists(folder.path() / "logs/run_random/attempt_0/0/file"));
    CHECK_FALSE(fs::exists(folder.path() / "logs/run_random/preflight"));
  }

  TEST_CASE("run folder: empty folders are removed if no output goes to files") {
    const TemporaryFolder folder;
    auto plan = plan_with(folder.path() / "logs");
    plan.workers.resize(2);
    {
      RunFolder run(plan);
      for (const int local_rank : {0, 1}) run.make_worker_folder(0, local_rank);
      run.note_workers_started();
      run.end_attempt(0);
      run.make_worker_folder(1, 0);
    }
    CHECK(fs::is_empty(folder.path() / "logs"));
    {
      RunFolder run(plan);
      run.make_worker_folder(0, 0);
      const auto error_file = run.make_worker_folder(0, 1).path() / "error.json";
      std::ofstream(error_file) << "{}";
      run.note_workers_started();
      run.end_attempt(0);
    }
    CHECK_FALSE(fs::exists(folder.path() / "logs/run_random/attempt_0/0"));
    CHECK(fs::exists(folder.path() / "logs/run_random/attempt_0/1/error.json"));
    fs::remove_all(folder.path() / "logs");
    plan.workers[1].standard_error = StreamTarget::file;
    {
      RunFolder run(plan);
      run.make_worker_folder(0, 0);
      run.note_workers_started();
      run.end_attempt(0);
    }
    CHECK(fs::exists(folder.path() / "logs/run_random/attempt_0/0"));
  }

  TEST_CASE("run folder: an existing folder of another user is rejected") {
    if (::geteuid() != 0) {
      MESSAGE("skipped: the user is not root");
      return;
    }
    const TemporaryFolder folder;
    const auto run = folder.path() / "logs" / "run_random";
    fs::create_directories(run);
    REQUIRE(::chown(run.c_str(), 54321, 54321) == 0);
    RunFolder refused(plan_with(folder.path() / "logs"));
    CHECK_THROWS_WITH_AS(
        refused.make_worker_folder(0, 0),
        doctest::Contains("/run_random cannot be created: Operation not permitted"), Error);
    CHECK(fs::is_empty(run));
    REQUIRE(::chown(run.c_str(), 0, 0) == 0);
    CHECK(refused.make_worker_folder(0, 0).path() == run / "attempt_0/0");
  }
}

}  // namespace run_folder_test
