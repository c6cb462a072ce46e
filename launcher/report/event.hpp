// Events of a run as plain values. The agent reports each event to all sinks (console, JSON lines,
// a vector in tests), so their contents agree. Terms are defined in docs/architecture.md.
#pragma once

#include "launcher/plan/launch_plan.hpp"
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
using membership::StacksTaken;
using membership::StalledConnection;
using membership::WorkerExited;

/// The run starts; on a single node, the store is ready.
struct RunStarted {
  std::string run_id;
  std::string program;
  int local_world_size = 0;
  std::string store;                   ///< host:port
  std::filesystem::path log_folder{};  ///< folder of the run; empty: no output files
  bool has_to_meet = false;  ///< workers wait for the rendezvous with other nodes at `store`

  bool operator==(const RunStarted&) const = default;
};

/// This node is a member of a round of several nodes.
struct RoundJoined {
  int round = 0;
  int node_rank = 0;
  int node_count = 1;
  int first_rank = 0;  ///< first rank of this node's workers
  int local_world_size = 0;
  int world_size = 0;
  std::string store;  ///< host:port as seen by this node's workers

  bool operator==(const RoundJoined&) const = default;
};

/// The preflight of this node has started.
struct PreflightStarted {
  int workers = 0;

  bool operator==(const PreflightStarted&) const = default;
};

/// Result of the preflight for the device of one worker.
struct DeviceExamined {
  int local_rank = 0;
  PreflightReport report;

  bool operator==(const DeviceExamined&) const = default;
};

/// The preflight of all devices has ended.
struct PreflightEnded {
  double seconds = 0;
  std::string summary;  ///< measured values; empty if a device failed

  bool operator==(const PreflightEnded&) const = default;
};

/// An attempt's workers are about to be started.
struct AttemptStarted {
  int attempt = 0;
  std::optional<int> restarts_left = 0;  ///< nullopt: no fixed limit, since old restarts expire

  bool operator==(const AttemptStarted&) const = default;
};

/// The exec of a worker has succeeded.
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
  bool ends_the_run = true;  ///< false if it counts as a crash and uses up a restart

  bool operator==(const WorkerNotStarted&) const = default;
};

/// A worker's death was detected before the kernel has released the process.
struct WorkerDying {
  int attempt = 0;
  int rank = 0;
  double after_start_seconds = 0;
  std::string error_message;         ///< error in its error file; empty: not written yet
  std::optional<Errc> error_code{};  ///< code in its error file

  bool operator==(const WorkerDying&) const = default;
};

/// The agent stops the remaining workers.
struct WorkersStopping {
  int attempt = 0;
  std::string reason;
  std::vector<int> ranks;  ///< ranks of workers that still run

  bool operator==(const WorkersStopping&) const = default;
};

/// Workers did not end within the grace period and are killed.
struct WorkersKilled {
  int attempt = 0;
  std::string reason;
  std::vector<int> ranks;

  bool operator==(const WorkersKilled&) const = default;
};

/// Some of this node's ranks were in an incomplete collective when a worker failed or stacks were
/// requested.
struct CollectiveStalled {
  int attempt = 0;
  StalledCollective stalled;

  bool operator==(const CollectiveStalled&) const = default;
};

/// Workers hang, or may hang.
struct HangDetected {
  int attempt = 0;
  std::string node{};  ///< name of their node; empty: this node
  double seconds = 0;
  bool is_certain = false;                       ///< the workers will not continue
  std::vector<MissingRank> ranks{};              ///< the cause; empty: unknown, or on another node
  std::vector<StalledConnection> connections{};  ///< the cause if `ranks` is empty
  OnHang action = OnHang::report;
  bool lacks_restarts = false;  ///< the action would be restart, but no restarts are left

  bool operator==(const HangDetected&) const = default;
};

/// Workers that were suspected to hang have continued.
struct HangEnded {
  int attempt = 0;
  std::string node{};  ///< name of their node; empty: this node
  double seconds = 0;

  bool operator==(const HangEnded&) const = default;
};

/// A rank takes longer than others between its collectives, so that they wait for it; or the link
/// over which it sends to another node is slower than before.
struct SlowRankDetected {
  int attempt = 0;
  int rank = 0;        ///< for a link, the one that sends for the longest time
  std::string node{};  ///< name of its node; empty: this node
  double factor = 1;   ///< see SlowRankNotice
  double seconds = 0;  ///< for which it was observed
  std::string doing;   ///< how it spends its time; empty: unknown
  std::string peer{};  ///< name of the node at the other end of the link; empty: no link

  bool operator==(const SlowRankDetected&) const = default;
};

/// A slow rank is as fast as the others again, or a slow link as before.
struct SlowRankRecovered {
  int attempt = 0;
  int rank = 0;        ///< of the SlowRankDetected that this ends
  std::string node{};  ///< name of its node; empty: this node
  std::string peer{};  ///< name of the node at the other end of the link; empty: no link

  bool operator==(const SlowRankRecovered&) const = default;
};

/// All workers of an attempt have ended and another attempt follows.
struct RestartDecided {
  int next_attempt = 0;
  std::string reason;
  std::chrono::milliseconds delay{0};  ///< back-off time
  bool is_planned = false;             ///< true if a node joined or left gracefully

  bool operator==(const RestartDecided&) const = default;
};

/// A signal reached the agent.
struct SignalReceived {
  int signal = 0;
  std::string action;  ///< action: "stopping the workers", "forwarded", ...

  bool operator==(const SignalReceived&) const = default;
};

/// Information that is reported once; not a problem.
struct Note {
  std::string message;

  bool operator==(const Note&) const = default;
};

/// A problem that an operator should examine; the run continues.
struct Warning {
  std::string message;

  bool operator==(const Warning&) const = default;
};

/// The run has ended. Contains all data of the final report.
struct RunFinished {
  RunResult result = RunResult::succeeded;
  OutcomeScope scope = OutcomeScope::run;
  int exit_code = 0;
  int attempts = 0;
  std::string reason;
  std::vector<WorkerExited> failures;  ///< last attempt's failures, root cause first, then by time
  std::vector<StalledCollective> stalled{};  ///< last attempt's, if it failed
  bool is_of_many = false;                   ///< true for a multi-node run

  bool operator==(const RunFinished&) const = default;
};

using Event =
    std::variant<PreflightStarted, DeviceExamined, PreflightEnded, RunStarted, RoundJoined,
                 AttemptStarted, WorkerStarted, WorkerNotStarted, WorkerDying, WorkerExited,
                 WorkersStopping, WorkersKilled, StacksTaken, CollectiveStalled, HangDetected,
                 HangEnded, SlowRankDetected, SlowRankRecovered, RestartDecided, SignalReceived,
                 Note, Warning, RunFinished>;

/// Receives events in order, on the agent's thread. Must not throw, and must not block for long.
class EventSink {
 public:
  virtual ~EventSink() = default;
  virtual void take(const Event& event, std::chrono::system_clock::time_point when) = 0;
};

}  // namespace ddprun
