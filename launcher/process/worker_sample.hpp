// State of a live worker at one moment, by which the agent detects hangs.
#pragma once

#include "rendezvous/control/flight_recorder.hpp"

#include <chrono>
#include <optional>
#include <sys/types.h>

namespace ddprun {

struct WorkerSample {
  int rank = 0;
  pid_t pid = 0;  ///< process of the program, which a shell may have started
  control::CallActivity activity{};
  char state = '\0';       ///< as in /proc/PID/stat; D if any thread is in state D
  bool is_traced = false;  ///< by a debugger
  /// CPU time of the worker and its descendants; nullopt: not sampled, or unknown.
  std::optional<std::chrono::nanoseconds> run_time{};

  bool operator==(const WorkerSample&) const = default;
};

struct Worker;

/// Samples a worker of the page; its run time, which takes some hundred microseconds, on request.
WorkerSample sample_of(const Worker& worker, const control::ControlPage& page, bool with_run_time);

}  // namespace ddprun
