#include "tests/support/failure_text.hpp"
#include "tests/support/group_processes.hpp"
#include <ddprun/process_group.hpp>
#include <ddprun/spawn.hpp>

#include <doctest/doctest.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <optional>
#include <stdexcept>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace spawn_test {

using namespace ddprun;
using namespace ddprun::test;
using namespace std::chrono_literals;

namespace {

/// ThreadSanitizer has its own thread.
SpawnOptions quick() {
  return {.time_limit = 60s, .stop_grace = 60s, .allow_threads = true};
}

/// A pipe for output of the workers, which ends when the last writer has exited.
class Pipe {
 public:
  Pipe() { REQUIRE(::pipe(ends_) == 0); }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  ~Pipe() {
    ::close(ends_[0]);
    if (!is_closed_) ::close(ends_[1]);
  }

  void write(const std::string& text) const {
    if (::write(ends_[1], text.data(), text.size()) < 0) std::abort();
  }
  std::string read_some() const {
    char buffer[256];
    const ssize_t got = ::read(ends_[0], buffer, sizeof buffer);
    return {buffer, static_cast<std::size_t>(got > 0 ? got : 0)};
  }
  /// Blocks until all writers have exited.
  std::string read_all() {
    if (!is_closed_) ::close(ends_[1]);
    is_closed_ = true;
    std::string all;
    for (std::string some; !(some = read_some()).empty();) all += some;
    return all;
  }

 private:
  int ends_[2];
  bool is_closed_ = false;
};

/// The failure of a run of four, without the process id.
std::string failure_of(const std::function<void(const WorkerEnv&)>& function,
                       const SpawnOptions& options = quick()) {
  try {
    spawn(function, 4, options);
  } catch (const WorkerFailed& failure) {
    std::string text = failure.what();
    const auto first = text.find(" (pid ");
    if (first != std::string::npos) text.erase(first, text.find(')', first) + 1 - first);
    return text + "; " + std::to_string(failure.rank()) + ", " +
           std::to_string(failure.exit_code()) + ", " + std::to_string(failure.signal());
  }
  return "no failure";
}

}  // namespace

TEST_SUITE("spawn") {
  TEST_CASE("spawn: workers in separate processes form a group") {
    Pipe output;
    spawn(
        [&](const WorkerEnv& env) {
          auto group = ProcessGroup::create(env, small_group());
          float value = static_cast<float>(env.rank);
          group.all_reduce(as_buffer(&value, 1)).wait();
          const bool is_known = from_process_environment() == env;
          if (value == 6 && is_known && env.is_launched()) output.write("x");
        },
        4, quick());
    CHECK(output.read_all() == "xxxx");
  }

  TEST_CASE("spawn: buffered output is printed exactly once") {
    Pipe output;
    const int standard_output = ::dup(STDOUT_FILENO);
    std::cout << "before ";
    std::cout.flush();
    std::FILE* const file = std::tmpfile();
    ::dup2(::fileno(file), STDOUT_FILENO);
    std::fclose(file);
    std::printf("parent ");
    spawn([](const WorkerEnv&) { std::printf("worker "); }, 2, quick());
    std::fflush(stdout);
    char text[100] = {};
    const ssize_t got = ::pread(STDOUT_FILENO, text, sizeof text - 1, 0);
    ::dup2(standard_output, STDOUT_FILENO);
    ::close(standard_output);
    CHECK(std::string(text, static_cast<std::size_t>(got)) == "parent worker worker ");
  }

  TEST_CASE("spawn: the first failure ends all workers and is thrown") {
    CHECK(failure_of([](const WorkerEnv& env) {
            if (env.rank == 2) throw std::runtime_error("out of flour");
            ::pause();
          }) == "spawn: rank 2 failed: std::runtime_error: out of flour; 2, 1, 0");
    CHECK(failure_of([](const WorkerEnv& env) {
            if (env.rank == 1) ::raise(SIGKILL);
            ::pause();
          }) == "spawn: rank 1 was ended by SIGKILL; 1, 0, 9");
    CHECK(failure_of([](const WorkerEnv& env) {
            if (env.rank == 3) ::_exit(7);
            ::pause();
          }) == "spawn: rank 3 exited with code 7; 3, 7, 0");
  }

  TEST_CASE("spawn: a worker that failed because of a peer is not named in the error") {
    for (int victim = 0; victim < 4; ++victim) {
      CHECK(failure_of([&](const WorkerEnv& env) {
              auto group = ProcessGroup::create(env, small_group());
              group.barrier().wait();
              if (env.rank == victim) ::raise(SIGKILL);
              group.barrier().wait();
            }) == "spawn: rank " + std::to_string(victim) + " was ended by SIGKILL; " +
                      std::to_string(victim) + ", 0, 9");
    }
  }

  TEST_CASE("spawn: a worker that exits while others wait is named in the error") {
    const auto message = failure_of([](const WorkerEnv& env) {
      auto group = ProcessGroup::create(env, small_group());
      group.barrier().wait();
      if (env.rank == 2) ::_exit(0);
      group.barrier().wait();
    });
    CHECK_MESSAGE(
        message.find("spawn: rank 2 exited with code 0 while others waited for it: rank ") == 0,
        message);
  }

  TEST_CASE("spawn: a worker that exits while others create a group is named in the error") {
    for (const auto& name : {"default", "other"}) {
      const auto text = failure_of([&](const WorkerEnv& env) {
        if (env.rank == 1) return;
        GroupOptions options = small_group(300s);
        options.join_timeout = 300s;
        options.name = name;
        const auto group = ProcessGroup::create(env, options);
      });
      CHECK_MESSAGE(text.find(std::string("spawn: rank 1 exited with code 0 before it created ") +
                              "group \"" + name + "\", where rank(s) ") == 0,
                    text);
      CHECK(text.ends_with(" wait for it; 1, 0, 0"));
    }
  }

  TEST_CASE("spawn: a worker that ends after those that noticed its failure is named") {
    struct Late {
      const Pipe& witness;
      explicit Late(const Pipe& pipe) : witness(pipe) {}
      ~Late() {
        // Until this process's parent knows that rank 0 has ended.
        const pid_t other = std::stoi(witness.read_some());
        for (const auto limit = Deadline::after(30s); ::kill(other, 0) == 0 && !limit.passed();)
          std::this_thread::yield();
      }
    };
    const Pipe witness;
    const auto text = failure_of([&](const WorkerEnv& env) {
      if (env.rank == 0) witness.write(std::to_string(::getpid()));
      std::optional<Late> late;
      if (env.rank == 1) late.emplace(witness);
      auto group = ProcessGroup::create(env, small_group());
      if (env.rank == 1) throw std::runtime_error("boom");
      group.barrier().wait();
    });
    CHECK(text == "spawn: rank 1 failed: std::runtime_error: boom; 1, 1, 0");
  }

  TEST_CASE("spawn: workers blocked in a collective get the reason for the failure") {
    Pipe output;
    Pipe ready;
    CHECK(failure_of([&](const WorkerEnv& env) {
            std::signal(SIGTERM, SIG_IGN);
            auto group = ProcessGroup::create(env, small_group());
            if (env.rank == 0) {
              for (std::string all; all.size() < 3;) all += ready.read_some();
              throw std::runtime_error("no more");
            }
            ready.write("x");
            output.write(describe_failure([&] { group.barrier().wait(); }).substr(0, 7) + "\n");
          }) == "spawn: rank 0 failed: std::runtime_error: no more; 0, 1, 0");
    CHECK(output.read_all() == "peer 0:\npeer 0:\npeer 0:\n");
  }

  TEST_CASE("spawn: workers that ignore SIGTERM are killed") {
    SpawnOptions options = quick();
    options.stop_grace = 100ms;
    Pipe ready;
    CHECK(failure_of(
              [&](const WorkerEnv& env) {
                std::signal(SIGTERM, SIG_IGN);
                ready.write("x");
                if (env.rank == 0) {
                  for (std::string all; all.size() < 4;) all += ready.read_some();
                  throw std::runtime_error("enough");
                }
                while (true) ::pause();
              },
              options) == "spawn: rank 0 failed: std::runtime_error: enough; 0, 1, 0");
  }

  TEST_CASE("spawn: workers that exceed the time limit are killed and named") {
    SpawnOptions options = quick();
    options.time_limit = 200ms;
    const auto message =
        describe_failure([&] { spawn([](const WorkerEnv&) { ::pause(); }, 2, options); });
    CHECK_MESSAGE(message.find("timeout: spawn: rank(s) 0, 1 had not ended after ") == 0, message);
  }

  TEST_CASE("spawn: descendants of workers do not outlive the workers") {
    Pipe held;
    spawn(
        [](const WorkerEnv&) {
          if (::fork() == 0) ::pause();
        },
        2, quick());
    CHECK(held.read_all().empty());
  }

  TEST_CASE("spawn: workers end with the process that spawned them") {
    Pipe output;
    const pid_t parent = ::fork();
    if (parent == 0) {
      spawn(
          [&](const WorkerEnv&) {
            output.write("x");
            ::pause();
          },
          3, {.allow_threads = true});
      ::_exit(0);
    }
    std::string begun;
    while (begun.size() < 3) begun += output.read_some();
    ::kill(parent, SIGKILL);
    CHECK(output.read_all().empty());
    ::waitpid(parent, nullptr, 0);
  }

  TEST_CASE("spawn: invalid arguments are rejected") {
    const auto nothing = [](const WorkerEnv&) {};
    for (const int workers : {0, -1, 1025}) {
      CHECK(describe_failure([&] { spawn(nothing, workers, quick()); }) ==
            "usage: spawn: " + std::to_string(workers) + " workers (1 to 1024 are possible)");
    }
    CHECK(describe_failure([] { spawn(nullptr, 1, quick()); }) ==
          "usage: spawn: the function is empty; pass one");
    auto* const before = std::signal(SIGCHLD, SIG_IGN);
    CHECK(describe_failure([&] {
            spawn(nothing, 1, quick());
          }).find("usage: spawn: SIGCHLD is ignored") == 0);
    std::signal(SIGCHLD, before);
    std::thread other([] {
      std::this_thread::yield();
      const auto message = describe_failure([] { spawn([](const WorkerEnv&) {}, 1); });
      CHECK_MESSAGE(message.find("usage: spawn: this process has made ") == 0, message);
    });
    other.join();
  }
}

}  // namespace spawn_test
