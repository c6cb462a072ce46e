// Real worker groups for tests: the dependencies of a WorkerGroup, with a pipe or a file as the
// console, and a loop that collects its events.
#pragma once

#include "launcher/process/worker_group.hpp"
#include "tests/support/temporary_folder.hpp"

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace ddprun::test {

/// A worker that runs `script` with /bin/sh.
WorkerSpec shell_worker(int local_rank, const std::string& script);

/// All events of a group.
struct History {
  std::vector<WorkerDying> dying;
  std::vector<WorkerExited> exited;  ///< in order of time
  std::vector<WorkersKilled> killed;
  std::vector<StacksTaken> stacks;
  bool is_complete = false;  ///< AllExited arrived

  const WorkerExited& exit_of(int rank) const;
};

class WorkerBench {
 public:
  explicit WorkerBench(int local_world_size = 1, ContainmentMode mode = ContainmentMode::automatic,
                       const StackPlan& stacks = {.when = StacksWhen::never},
                       KilledLimits limits = {});
  ~WorkerBench();

  WorkerBench(const WorkerBench&) = delete;
  WorkerBench& operator=(const WorkerBench&) = delete;

  WorkerGroup& group();
  Containment& containment();
  int control_page_fd() const;

  /// Starts the workers; fails the test if they do not start.
  std::vector<WorkerStarted> start(const std::vector<WorkerSpec>& workers);

  /// The same, but permits failed starts. Calls `meanwhile` each time the start yields to the loop.
  WorkerGroup::StartResult try_start(
      const std::vector<WorkerSpec>& workers, const std::function<void()>& meanwhile = [] {});

  /// The same, as a restart whose failures are retried for `limit`.
  WorkerGroup::StartResult try_restart(const std::vector<WorkerSpec>& workers,
                                       const std::function<void()>& meanwhile,
                                       std::chrono::milliseconds limit = kStartRetryLimit);

  /// Handles events until no process is left, the first exit, or the first event of any kind.
  void run_to_end();
  void run_to_first_exit();
  void run_to_first_event();

  const History& history() const;

  /// After the end: pids of descendants that had to be killed. Calls `meanwhile` each time the
  /// sweep yields to the loop.
  std::vector<pid_t> sweep(const std::function<void()>& meanwhile = [] {});

  /// The same, with those that could not be killed.
  Swept sweep_all(const std::function<void()>& meanwhile = [] {});

  /// Runs the event loop until `condition` is true; fails the test after a minute.
  template <typename Condition>
  void run_until(Condition condition) {
    const auto deadline = Deadline::after(std::chrono::seconds(60));
    while (!condition()) {
      if (deadline.passed()) fail("the condition did not come true in a minute");
      run_a_little();
    }
  }

  /// Console output so far, both streams in one file.
  std::string console() const;

  const std::filesystem::path& folder() const;

  /// Warnings of the library.
  const std::vector<std::string>& log() const;

 private:
  void run_a_little();
  [[noreturn]] static void fail(const std::string& why);

  class Impl;
  std::unique_ptr<Impl> impl_;
};

/// Waits up to a minute until the file exists and ends with a newline; returns its text.
std::string await_line(const std::filesystem::path& file);

/// Returns true if the process exists and is not a zombie.
bool is_alive(pid_t pid);

/// Waits until the process is gone; returns false if it exists at the deadline.
bool await_end(pid_t pid, Deadline deadline);

}  // namespace ddprun::test
