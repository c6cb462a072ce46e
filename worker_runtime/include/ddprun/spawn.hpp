// Workers without a launcher: a function run by several processes that are forked from this one,
// for tests, notebooks of experiments and programs that want to be started by their own name. What
// torch.multiprocessing.spawn is to torchrun.
//
// What ddprun does beyond it, and this does not: restarts, several nodes, log files, binding to
// cores, stacks of hung workers. A program that is written for it runs under ddprun if it calls its
// function itself when from_process_environment() says that it was launched.
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

/// A worker of spawn() failed; the message is the first failure's, with the exception's text if it
/// was one. Or it ended although others waited for it, then with exit code 0.
class WorkerFailed : public Error {
 public:
  /// The arguments are what the functions below return.
  WorkerFailed(int rank, int exit_code, int signal, const std::string& message)
      : Error(Errc::remote, message), rank_(rank), exit_code_(exit_code), signal_(signal) {}

  /// The rank of the worker that failed first.
  int rank() const noexcept { return rank_; }
  /// 1 after an exception; 0 if a signal ended it.
  int exit_code() const noexcept { return exit_code_; }
  /// What ended it; 0 if it exited.
  int signal() const noexcept { return signal_; }

 private:
  int rank_;
  int exit_code_;
  int signal_;
};

/// How long workers may take, and how they are started and stopped.
struct SpawnOptions {
  /// For all workers to end; nothing is no limit. Throws Error{Errc::timeout} naming those that had
  /// not.
  std::optional<Deadline::Duration> time_limit = {};
  /// Between SIGTERM and SIGKILL for those that are left when one has failed.
  Deadline::Duration stop_grace = std::chrono::seconds(5);
  /// Forks although this process has made threads since it was loaded. A worker has none of them,
  /// and what they were about to change stays as it is, locks included: only where it is known that
  /// nothing of theirs is used there.
  bool allow_threads = false;
};

/// Calls `function` in `workers` new processes, at most 1024, and blocks until all have ended. Each
/// is a copy of this one with the environment of a worker: ProcessGroup::create(env) meets the
/// others, by a store in this process. A worker succeeds if `function` returns; streams are flushed
/// then, but neither exit handlers nor destructors of static objects run: those are this process'.
/// SIGTERM and SIGINT end it unless `function` catches them.
///
/// The first failure ends all: who waits in a collective throws PeerFailed at once, the others get
/// SIGTERM, then SIGKILL. No worker outlives this call, nor this process, by whatever it ends. What
/// workers have started themselves, and left in their process group, ends with them, unless it is
/// the death of this process that has ended them.
///
/// To be called by the main thread; no other part of the program may wait for children that are not
/// its own, and SIGCHLD must not be ignored. Takes two descriptors for each worker. Throws
/// WorkerFailed, and Error{Errc::usage} or Errc::system if it cannot begin.
void spawn(const std::function<void(const WorkerEnv& env)>& function, int workers,
           const SpawnOptions& options = {});

/// Not for a function that returns something, which nobody would hear of: a worker fails by an
/// exception or by its exit code.
template <typename Function>
void spawn(const Function& function, int workers, const SpawnOptions& options = {}) requires(
    !std::is_void_v<std::invoke_result_t<const Function&, const WorkerEnv&>>) = delete;

}  // namespace ddprun
