// One worker of a group, shared by the group's parts. Runs on the agent's thread.
#pragma once

#include "launcher/output/worker_stream.hpp"
#include "launcher/process/error_file.hpp"
#include "launcher/process/worker_group.hpp"
#include "launcher/process/worker_process.hpp"
#include "rendezvous/control/flights.hpp"

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace ddprun {

/// One worker from its fork until its exit has been reported.
struct Worker {
  using Clock = std::chrono::steady_clock;

  WorkerSpec spec;
  WorkerProcess process;
  std::shared_ptr<WorkerStream> standard_output;
  std::shared_ptr<WorkerStream> standard_error;
  Clock::time_point started = Clock::now();
  int early_signal = 0;  ///< sent before exec, so that it may be lost; 0: none
  bool is_death_noticed = false;
  bool has_ended = false;    ///< reaped or abandoned
  bool was_stopped = false;  ///< asked to stop before its death was detected
  /// Invalid value in its slot of the control page, for which it was killed.
  std::optional<std::string> damage{};
  std::string inspection_socket{};  ///< see ProcessRequest
  /// Flight records in the last answer of StackMeans::python_thread.
  control::WorkerFlights python_flights{};
  /// What it did when it was found to hang. It is killed instead of asked to stop.
  std::optional<std::string> hang{};

  /// Time of the first SIGKILL.
  std::optional<Clock::time_point> killed_at{};

  /// Returns true for a fork of PreloadedPython.
  bool is_fork_of_python() const { return !inspection_socket.empty(); }
  void kill();
  bool is_killed() const { return killed_at.has_value(); }

  /// Returns text such as "65 s after SIGKILL: state D (uninterruptible sleep)".
  std::string still_running() const;
  /// Returns "rank 1 (pid 17) is still running ", and still_running().
  std::string warning() const;

  /// Returns true if it was killed because it hangs, and hangs in the kernel, where SIGKILL does
  /// not end it.
  bool is_stuck_in_kernel() const;

  /// Returns true if the worker has recorded an error: it has failed by itself, and only takes long
  /// to end.
  bool has_recorded_error() const { return !read_error_report(spec.error_file).message.empty(); }

  /// Returns the facts about its exit that are known here; not the attempt's.
  WorkerExited exited(const ProcessExit& exit) const;

  /// Returns the error that `damage` causes; empty without damage.
  std::string damage_text(const ProcessExit& exit) const;

  double seconds_since_start() const {
    return std::chrono::duration<double>(Clock::now() - started).count();
  }
};

/// Shared with the coroutines that watch them.
using Workers = std::vector<std::shared_ptr<Worker>>;

bool has_any_hung(const Workers& workers);

/// Returns true if the condition is true for all workers that have not ended.
bool all_remaining(const Workers& workers, bool (Worker::*condition)() const);

}  // namespace ddprun
