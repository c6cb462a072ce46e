// State of a live worker at one moment, by which the agent detects hangs.
#pragma once

#include "rendezvous/control/flight_recorder.hpp"

#include <cstdint>
#include <sys/types.h>

namespace ddprun {

struct WorkerSample {
  int rank = 0;
  pid_t pid = 0;  ///< of the process that linked the runtime, or of the worker
  control::CallActivity activity{};
  char state = '\0';            ///< as in /proc/PID/stat
  std::uint64_t cpu_ticks = 0;  ///< user and system time, in units of _SC_CLK_TCK

  bool operator==(const WorkerSample&) const = default;
};

struct Worker;

/// Samples a worker of the page. Its CPU time includes that of its children if `with_children`.
WorkerSample sample_of(const Worker& worker, const control::ControlPage& page, bool with_children);

}  // namespace ddprun
