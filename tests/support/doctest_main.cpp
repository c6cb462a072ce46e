// The main of every test program. After the tests it checks that they left no child process, no
// open descriptor, and no file in the temporary folder (TMPDIR, which is the program's own while it
// runs).
#define DOCTEST_CONFIG_IMPLEMENT
#include "tests/support/skip.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <string>
#include <sys/wait.h>
#include <unistd.h>

namespace {

namespace fs = std::filesystem;

std::set<std::string> open_descriptors() {
  std::set<std::string> open;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator("/proc/self/fd", error)) {
    const auto target = fs::read_symlink(entry.path(), error);
    if (error || target.string().find("/proc/") == 0) continue;
    open.insert(entry.path().filename().string() + " -> " + target.string());
  }
  return open;
}

/// Prints the name of each test case at its start, so that the output of a program killed at its
/// time limit ends with the unfinished case.
struct StartedCases : doctest::IReporter {
  explicit StartedCases(const doctest::ContextOptions&) {}
  void test_case_start(const doctest::TestCaseData& test) override {
    std::fprintf(stderr, "started: %s\n", test.m_name);
  }
  void report_query(const doctest::QueryData&) override {}
  void test_run_start() override {}
  void test_run_end(const doctest::TestRunStats&) override {}
  void test_case_reenter(const doctest::TestCaseData&) override {}
  void test_case_end(const doctest::CurrentTestCaseStats&) override {}
  void test_case_exception(const doctest::TestCaseException&) override {}
  void subcase_start(const doctest::SubcaseSignature&) override {}
  void subcase_end() override {}
  void log_assert(const doctest::AssertData&) override {}
  void log_message(const doctest::MessageData&) override {}
  void test_case_skipped(const doctest::TestCaseData&) override {}
};
DOCTEST_REGISTER_LISTENER("started", 1, StartedCases);

int report_leak(const std::string& what) {
  std::fprintf(stderr, "left behind: %s\n", what.c_str());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  doctest::Context context(argc, argv);
  std::string folder = (fs::temp_directory_path() / "ddprun-test-XXXXXX").string();
  if (::mkdtemp(folder.data()) == nullptr) {
    std::perror("mkdtemp");
    return 1;
  }
  ::setenv("TMPDIR", folder.c_str(), 1);
  const auto open_before = open_descriptors();

  int result = context.run();

  // A child that a test killed but did not reap counts as left behind, too.
  const pid_t child = ::waitpid(-1, nullptr, WNOHANG);
  if (child >= 0 || errno != ECHILD) result |= report_leak("a child process");
  for (const auto& descriptor : open_descriptors()) {
    if (!open_before.contains(descriptor)) result |= report_leak("descriptor " + descriptor);
  }
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    // The thread sanitizer creates this file at the start of a program and removes it at once; a
    // guardian that is ended at that moment cannot.
    if (entry.path().filename().string().rfind("tsan.rodata.", 0) == 0) continue;
    result |= report_leak("file " + entry.path().string());
  }
  fs::remove_all(folder);
  if (result == 0 && ddprun::test::has_skipped()) return ddprun::test::kSkippedExitCode;
  return result;
}
