// run_worker() in a real program: exit codes, error files and the agent's view.
#include "rendezvous/control/control_page.hpp"
#include "tests/support/temporary_folder.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace run_worker_test {

using ddprun::control::ControlPage;
using ddprun::control::WorkerPhase;
using ddprun::test::TemporaryFolder;

namespace {

struct Run {
  int status = 0;
  nlohmann::json error_file;  ///< null if absent
  std::string standard_error;
  std::size_t files_left = 0;

  std::string message() const { return error_file["message"]["message"]; }
  std::string stack() const { return error_file["message"]["extraInfo"]["py_callstack"]; }
  bool exited_with(int code) const { return WIFEXITED(status) && WEXITSTATUS(status) == code; }
  bool was_killed_by(int signal) const { return WIFSIGNALED(status) && WTERMSIG(status) == signal; }
};

/// Runs the worker that fails as given by `how`, optionally with a control page, and with a link in
/// place of the temporary file if its target is given.
Run run_worker(const std::string& how, const ControlPage* page = nullptr,
               const std::filesystem::path& target = {}) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "error.json";
  const auto errors = folder.path() / "stderr";
  const pid_t pid = ::fork();
  if (pid == 0) {
    const rlimit no_core{.rlim_cur = 0, .rlim_max = 0};
    ::setrlimit(RLIMIT_CORE, &no_core);
    ::dup2(::open(errors.c_str(), O_WRONLY | O_CREAT, 0600), 2);
    ::setenv("TORCHELASTIC_ERROR_FILE", path.c_str(), 1);
    ::setenv("RANK", "0", 1);
    ::setenv("WORLD_SIZE", "1", 1);
    ::setenv("MASTER_ADDR", "127.0.0.1", 1);
    ::setenv("MASTER_PORT", "1", 1);
    if (page != nullptr) {
      ::setenv("DDPRUN_CONTROL_FD", std::to_string(::dup(page->fd())).c_str(), 1);
      ::setenv("DDPRUN_CONTROL_SLOT", "1", 1);
    }
    if (!target.empty()) {
      const auto temporary = path.string() + "." + std::to_string(::getpid()) + ".tmp";
      std::filesystem::create_symlink(target, temporary);
    }
    ::execl(DDPRUN_BIN_DIR "/failing_worker", "failing_worker", how.c_str(), nullptr);
    ::_exit(99);
  }
  Run run;
  ::waitpid(pid, &run.status, 0);
  {
    std::ifstream file(errors);
    run.standard_error.assign(std::istreambuf_iterator<char>(file), {});
  }
  std::filesystem::remove(errors);
  if (std::ifstream file(path); file) run.error_file = nlohmann::json::parse(file);
  for (const auto& entry : std::filesystem::directory_iterator(folder.path()))
    run.files_left += entry.exists() ? 1 : 0;
  return run;
}

}  // namespace

TEST_SUITE("run_worker") {
  TEST_CASE("run_worker: an exception is recorded in torchelastic's format with exit code 1") {
    const Run run = run_worker("exception");
    CHECK(run.exited_with(1));
    CHECK(run.message() == "std::runtime_error: no \"such\" layer\nat all");
    CHECK(run.stack().find("no \"such\" layer") != std::string::npos);
    const std::string seconds = run.error_file["message"]["extraInfo"]["timestamp"];
    CHECK(std::stoll(seconds) > 1'600'000'000);
    CHECK(run.files_left == 1);
  }

  TEST_CASE("run_worker: the type of a ddprun::Error is omitted on stderr") {
    struct Row {
      const char* how;
      int exit_code;
      std::string printed;
      std::string message;
      nlohmann::json code{};
    };
    const std::vector<Row> table = {
        {"error", 1, "error: disk full\n", "disk full", "system"},
        {"usage", 2, "error: no such option\n", "no such option", "usage"},
        {"peer", 1, "error: rank 3 died\n", "ddprun::PeerFailed: rank 3 died", "remote"},
        {"exception", 1, "error: std::runtime_error: no \"such\" layer\nat all\n",
         "std::runtime_error: no \"such\" layer\nat all"},
    };
    for (const Row& row : table) {
      CAPTURE(row.how);
      const Run run = run_worker(row.how);
      CHECK(run.exited_with(row.exit_code));
      CHECK(run.standard_error == row.printed);
      CHECK(run.message() == row.message);
      CHECK(run.error_file["message"]["extraInfo"].value("code", nlohmann::json()) == row.code);
    }
  }

  TEST_CASE("run_worker: a stack at the end of what() is not recorded with the message") {
    const Run run = run_worker("libtorch");
    CHECK(run.message() == "std::runtime_error: sizes differ");
    CHECK(run.standard_error == "error: std::runtime_error: sizes differ\n");
    CHECK(run.stack() ==
          "Exception raised from f at g.cpp:1 (most recent call first):\nframe #0: main\n\n");
    CHECK(run_worker("libtorch thread").message() ==
          "uncaught exception: std::runtime_error: sizes differ");
  }

  TEST_CASE("run_worker: symbolic links in place of the error file are not followed") {
    const TemporaryFolder folder;
    const auto target = folder.path() / "target";
    std::ofstream(target) << "text";
    const Run run = run_worker("exception", nullptr, target);
    CHECK(run.exited_with(1));
    CHECK_FALSE(run.error_file.is_null());  // the link has been replaced
    std::string text;
    std::ifstream(target) >> text;
    CHECK(text == "text");
  }

  TEST_CASE("run_worker: an exception not derived from std::exception is recorded") {
    const Run run = run_worker("unknown");
    CHECK(run.exited_with(1));
    CHECK(run.message() == "exception of an unknown type");
  }

  TEST_CASE("run_worker: a fatal signal is recorded with a stack before it kills the worker") {
    for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) {
      CAPTURE(signal);
      const Run run = run_worker(std::to_string(signal));
      CHECK(run.was_killed_by(signal));
      CHECK(run.message() == std::string("fatal signal SIG") + ::sigabbrev_np(signal));
      CHECK(run.stack().find("failing_worker") != std::string::npos);
      CHECK(run.files_left == 1);
    }
  }

  TEST_CASE("run_worker: a stack overflow is recorded") {
    const Run run = run_worker("overflow");
    CHECK(run.was_killed_by(SIGSEGV));
    CHECK(run.message().starts_with("fatal signal SIGSEGV at address 0x7"));
  }

  TEST_CASE("run_worker: an invalid memory access is recorded with the address") {
    const Run run = run_worker("access");
    CHECK(run.was_killed_by(SIGSEGV));
    CHECK(run.message() == "fatal signal SIGSEGV at address 0x1f0");
    CHECK(run.stack().starts_with("fatal signal SIGSEGV at address 0x1f0"));
  }

  TEST_CASE("run_worker: an exception that leaves a thread is recorded before the abort") {
    const Run run = run_worker("thread");
    CHECK(run.was_killed_by(SIGABRT));
    CHECK(run.message() == "uncaught exception: std::runtime_error: in a thread");
  }

  TEST_CASE("run_worker: a forked child or a successful worker writes no error file") {
    for (const char* how : {"child", "success"}) {
      const Run run = run_worker(how);
      CHECK(run.exited_with(0));
      CHECK(run.files_left == 0);
    }
  }

  TEST_CASE("run_worker: an unusable control page is recorded") {
    const auto page = ControlPage::create(1);  // and the worker has slot 1
    const Run run = run_worker("success", &page);
    CHECK(run.exited_with(2));
    CHECK(run.message().find("no slot for local rank 1") != std::string::npos);
  }

  TEST_CASE("run_worker: the exit code is announced in the control page unless killed") {
    const auto leaving = ControlPage::create(2);
    CHECK(run_worker("exit", &leaving).exited_with(7));
    CHECK(leaving.phase(1) == WorkerPhase::exiting);
    CHECK(leaving.exit_status(1) == 7);
    CHECK(leaving.is_dead(1));

    const auto dying = ControlPage::create(2);
    CHECK(run_worker(std::to_string(SIGKILL), &dying).was_killed_by(SIGKILL));
    CHECK(dying.phase(1) == WorkerPhase::alive);
    CHECK(dying.is_dead(1));
  }
}

}  // namespace run_worker_test
