// State of a live worker at one moment, by which the agent detects hangs and slow ranks.
#pragma once

#include "launcher/process/kernel_wait.hpp"
#include "rendezvous/control/flight_recorder.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <sys/types.h>

namespace ddprun {

struct WorkerSample {
  int rank = 0;
  pid_t pid = 0;  ///< process of the program, which a shell may have started
  control::CallActivity activity{};
  char state = '\0';       ///< of the main thread, as in /proc/PID/stat; see sample_of()
  bool is_traced = false;  ///< by a debugger
  /// Number of begins and ends of captures of its stacks, which interrupt waits; odd during one.
  std::uint64_t inspections = 0;
  /// CPU time of the main threads of the program and of its children that run the same program,
  /// such as those of torch.multiprocessing; nullopt: unknown.
  std::optional<std::chrono::nanoseconds> main_time{};
  /// Time for which the main thread of the program was ready to run but had no CPU; nullopt:
  /// unknown.
  std::optional<std::chrono::nanoseconds> queued_time{};
  /// CPU time of the worker and its descendants; nullopt: not sampled, or unknown.
  std::optional<std::chrono::nanoseconds> run_time{};
  WaitCause wait_cause = WaitCause::unknown;  ///< unknown also if not sampled
  std::string waiting_code{};  ///< set by the caller, see waiting_code.hpp; empty: unknown

  bool operator==(const WorkerSample&) const = default;
};

/// Limits the inspection of a worker with very many descendants.
inline constexpr std::size_t kProcessesMax = 64;

struct Worker;

/// Samples a worker of the page; on request with the details that take some hundred microseconds:
/// run time, cause of the wait, and whether the worker is traced. Then the state of a worker that
/// has called collectives is D if any of its threads is in state D.
WorkerSample sample_of(const Worker& worker, const control::ControlPage& page, bool with_details);

}  // namespace ddprun
