// Runs a function in several forked worker processes without a launcher, like
// torch.multiprocessing.spawn. For tests, experiments and programs that are started directly. Does
// not provide ddprun's restarts, several nodes, log files, binding to cores, and stacks of hung
// workers. A program that uses it also runs under ddprun if it calls the function directly when
// from_process_environment() returns a launched worker.
#pragma once

#include <ddprun/deadline.hpp>
#include <ddprun/error.hpp>
#include <ddprun/worker_env.hpp>

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <type_traits>

namespace ddprun {

/// A worker of spawn() failed. The message describes the first failure, including the text of an
/// exception. Also thrown if a worker exited with code 0 while others waited for it.
class WorkerFailed : public Error {
 public:
  /// The arguments are the values that the functions below return.
  WorkerFailed(int rank, int exit_code, int signal, const std::string& message)
      : Error(Errc::remote, message), rank_(rank), exit_code_(exit_code), signal_(signal) {}

  /// Returns the rank of the worker that failed first.
  int rank() const noexcept { return rank_; }
  /// Returns the exit code of the worker: 1 after an exception; 0 if a signal ended it.
  int exit_code() const noexcept { return exit_code_; }
  /// Returns the signal that ended the worker; 0 if it exited.
  int signal() const noexcept { return signal_; }

 private:
  int rank_;
  int exit_code_;
  int signal_;
};

/// Options of spawn().
struct SpawnOptions {
  /// Time limit for all workers; empty: none. When it passes, spawn() throws Error{Errc::timeout}
  /// with the workers that have not ended.
  std::optional<Deadline::Duration> time_limit = {};
  /// Time between SIGTERM and SIGKILL for the remaining workers after a failure.
  Deadline::Duration stop_grace = std::chrono::seconds(5);
  /// Allows forking although this process has created threads since it was loaded. Workers do not
  /// have these threads; data that the threads were changing, including locks, stays as it was.
  /// This is only safe if workers do not use such data.
  bool allow_threads = false;
};

/// Calls `function` in `workers` new processes, at most 1024, and blocks until all have ended. Each
/// is a copy of this process with the environment of a worker; ProcessGroup::create(env) connects
/// it to the others through a store in this process. A worker succeeds if `function` returns. Its
/// streams are then flushed; exit handlers and destructors of static objects do not run, since they
/// belong to this process. SIGTERM and SIGINT end it unless `function` catches them.
///
/// The first failure ends all workers: waits in collectives throw PeerFailed immediately, and the
/// other workers get SIGTERM, then SIGKILL. No worker outlives this call, or this process if it
/// dies. Processes that workers have started in their process group end with the workers, except
/// after the death of this process.
///
/// Must be called by the main thread. No other part of the program may wait for children that it
/// has not created, and SIGCHLD must not be ignored. Uses two descriptors per worker. Throws
/// WorkerFailed, or Error{Errc::usage} or Errc::system if workers cannot be started.
void spawn(const std::function<void(const WorkerEnv& env)>& function, int workers,
           const SpawnOptions& options = {});

/// Rejects functions that return a value, since it would be lost. Workers report failures by
/// exceptions or exit codes.
template <typename Function>
void spawn(const Function& function, int workers, const SpawnOptions& options = {}) requires(
    !std::is_void_v<std::invoke_result_t<const Function&, const WorkerEnv&>>) = delete;

}  // namespace ddprun
