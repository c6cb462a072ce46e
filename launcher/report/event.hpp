// What happened in a run, as plain values: the agent reports each to the sinks (console, JSON
// lines, a vector in tests), which therefore cannot disagree. Words as in docs/architecture.md.
#pragma once

#include "launcher/report/stalled_collective.hpp"
#include "rendezvous/base/preflight_report.hpp"
#include "rendezvous/membership/messages.hpp"

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <sys/types.h>
#include <variant>
#include <vector>

namespace ddprun {

using membership::OutcomeScope;
using membership::RunResult;
using membership::WorkerExited;

/// The run begins; of one node: the store is ready.
struct RunStarted {
  std::string run_id;
  std::string program;
  int local_world_size = 0;
  std::string store;                   ///< host:port
  std::filesystem::path log_folder{};  ///< of the run; empty: no output goes to files
  bool has_to_meet = false;  ///< the workers start when this node has met others, at `store`

  bool operator==(const RunStarted&) const = default;
};

/// This node has a place in a round of several nodes.
struct RoundJoined {
  int round = 0;
  int node_rank = 0;
  int node_count = 1;
  int first_rank = 0;  ///< of this node's workers
  int local_world_size = 0;
  int world_size = 0;
  std::string store;  ///< host:port, as the workers of this node know it

  bool operator==(const RoundJoined&) const = default;
};

/// The node is looked at before its workers start.
struct PreflightStarted {
  int workers = 0;

  bool operator==(const PreflightStarted&) const = default;
};

/// What was found out about the device of one worker.
struct DeviceExamined {
  int local_rank = 0;
  PreflightReport report;

  bool operator==(const DeviceExamined&) const = default;
};

/// All devices have been looked at.
struct PreflightEnded {
  double seconds = 0;
  std::string summary;  ///< of what is in order; empty if something is not

  bool operator==(const PreflightEnded&) const = default;
};

/// An attempt's workers are about to be started.
struct AttemptStarted {
  int attempt = 0;
  std::optional<int> restarts_left = 0;  ///< nothing: those of long ago count no more

  bool operator==(const AttemptStarted&) const = default;
};

/// A worker is past exec.
struct WorkerStarted {
  int attempt = 0;
  int rank = 0;
  pid_t pid = 0;

  bool operator==(const WorkerStarted&) const = default;
};

/// A worker could not be started.
struct WorkerNotStarted {
  int attempt = 0;
  int rank = 0;
  std::string step;          ///< "exec", "chdir", ...
  std::string message;       ///< path, reason and hint
  bool ends_the_run = true;  ///< false: costs a restart, as a crash of the worker does

  bool operator==(const WorkerNotStarted&) const = default;
};

/// A worker's death was noticed before the kernel had reaped it.
struct WorkerDying {
  int attempt = 0;
  int rank = 0;
  double after_start_seconds = 0;
  std::string error_message;  ///< from its error file, if it is there already

  bool operator==(const WorkerDying&) const = default;
};

/// The agent stops the remaining workers.
struct WorkersStopping {
  int attempt = 0;
  std::string reason;
  std::vector<int> ranks;  ///< those still running

  bool operator==(const WorkersStopping&) const = default;
};

/// Workers ignored the signal for the whole grace time and are killed.
struct WorkersKilled {
  int attempt = 0;
  std::string reason;
  std::vector<int> ranks;

  bool operator==(const WorkersKilled&) const = default;
};

/// The stacks of one worker, as well as they could be had.
struct StacksTaken {
  int attempt = 0;
  int rank = 0;
  pid_t pid = 0;
  std::string reason;                 ///< why they were taken
  std::vector<std::string> means;     ///< "gdb", "py-spy", ...; empty: none had anything
  std::vector<std::string> problems;  ///< with the means that did not work
  std::filesystem::path file{};       ///< that has them all; empty: none is kept
  std::vector<std::string> lines;     ///< the first of them
  bool was_ended = false;             ///< the means ended the worker

  bool operator==(const StacksTaken&) const = default;
};

/// Some of this node's ranks were in a collective that not all got through, when a worker failed or
/// somebody asked.
struct CollectiveStalled {
  int attempt = 0;
  StalledCollective stalled;

  bool operator==(const CollectiveStalled&) const = default;
};

/// All workers of an attempt have ended and another attempt follows.
struct RestartDecided {
  int next_attempt = 0;
  std::string reason;
  std::chrono::milliseconds delay{0};  ///< back-off
  bool is_planned = false;             ///< nothing failed: a node came or left in order

  bool operator==(const RestartDecided&) const = default;
};

/// A signal reached the agent.
struct SignalReceived {
  int signal = 0;
  std::string action;  ///< "stopping the workers", "forwarded", ...

  bool operator==(const SignalReceived&) const = default;
};

/// Worth telling once; nothing is wrong.
struct Note {
  std::string message;

  bool operator==(const Note&) const = default;
};

/// Somebody should look; the run goes on.
struct Warning {
  std::string message;

  bool operator==(const Warning&) const = default;
};

/// The run is over: everything the final report needs.
struct RunFinished {
  RunResult result = RunResult::succeeded;
  OutcomeScope scope = OutcomeScope::run;
  int exit_code = 0;
  int attempts = 0;
  std::string reason;
  std::vector<WorkerExited> failures;  ///< of the last attempt, root cause first, then by time
  std::vector<StalledCollective> stalled{};  ///< collectives of the last attempt, when it failed
  bool is_of_many = false;                   ///< of several nodes

  bool operator==(const RunFinished&) const = default;
};

using Event =
    std::variant<PreflightStarted, DeviceExamined, PreflightEnded, RunStarted, RoundJoined,
                 AttemptStarted, WorkerStarted, WorkerNotStarted, WorkerDying, WorkerExited,
                 WorkersStopping, WorkersKilled, StacksTaken, CollectiveStalled, RestartDecided,
                 SignalReceived, Note, Warning, RunFinished>;

/// Takes events in the order in which they happen, on the agent's thread. Must not throw and must
/// not block for long.
class EventSink {
 public:
  virtual ~EventSink() = default;
  virtual void take(const Event& event, std::chrono::system_clock::time_point when) = 0;
};

}  // namespace ddprun
