// Messages between the agents of a run and its coordinator. Plain values; codec.hpp encodes them,
// coordination.hpp and node_state_machine.hpp handle them.
//
// A connection is a node's membership: the node joins once per connection. Messages about workers
// contain their round, so that late ones are recognised.
#pragma once

#include "rendezvous/control/flights.hpp"
#include <ddprun/error.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <sys/types.h>
#include <variant>
#include <vector>

namespace ddprun::membership {

/// Version of these messages. Agents with different versions cannot communicate.
inline constexpr std::uint32_t kProtocolVersion = 16;

/// Maximum round number and restart count that is accepted from a node.
inline constexpr int kRoundMax = 1'000'000'000;

/// Highest signal number on Linux.
inline constexpr int kSignalMax = 64;

/// Maximum number of agents in one probe.
inline constexpr std::size_t kProbedNodesMax = 256;

/// Maximum bytes of a numeric address, including a scope.
inline constexpr std::size_t kAddressBytesMax = 64;

/// Endpoint at which an agent accepts probe connections.
struct ProbeAddress {
  std::string host{};      ///< numeric address
  std::uint16_t port = 0;  ///< TCP port; 0: none

  bool operator==(const ProbeAddress&) const = default;
};

/// End of a worker.
struct WorkerExited {
  int attempt = 0;
  int rank = 0;
  int local_rank = 0;
  pid_t pid = 0;
  std::string node{};             ///< name of its node; empty in a single-node run
  int exit_code = 0;              ///< exit code, if signal is 0
  int signal = 0;                 ///< signal that ended it; 0: none
  bool was_stopped = false;       ///< the agent had asked it to stop before it ended: not a cause
  bool was_forwarded = false;     ///< the agent had received this signal and forwarded it
  bool is_out_of_memory = false;  ///< the kernel's out-of-memory killer ended it
  std::int64_t peak_memory_bytes = 0;
  double ran_seconds = 0;                                           ///< time from start to end
  std::optional<std::chrono::system_clock::time_point> ended_at{};  ///< by its node's clock
  std::optional<std::filesystem::path> core_file;
  std::string error_message;         ///< message in its error file, or empty
  std::string error_traceback;       ///< traceback in its error file, or empty
  std::optional<Errc> error_code{};  ///< code in its error file, of the Error that ended it
  /// Time when the worker recorded the error, if the file contains it.
  std::optional<std::chrono::system_clock::time_point> error_time{};
  std::vector<std::string> last_lines;  ///< last lines of standard error, oldest first
  std::string hint{};                   ///< what its last lines mean, with a remedy; or empty
  std::filesystem::path log_folder{};   ///< folder of worker and attempt; empty: none

  /// What a worker had not done when it exited with code 0: "before it entered collective 3 ...".
  std::string ended_before{};
  /// What a worker did when its agent killed it after a hang: "stopped by a signal (state T)"; or
  /// empty.
  std::string hung{};

  bool was_started = true;  ///< false: `error_message` is the reason, `pid` meaningless
  /// State of a worker that SIGKILL has not ended, such as "65 s after SIGKILL: state D ...";
  /// nullopt if it has ended. If set, exit code and signal are invalid.
  std::optional<std::string> still_running{};

  bool failed() const {
    return signal != 0 || exit_code != 0 || !ended_before.empty() || still_running;
  }
  bool operator==(const WorkerExited&) const = default;
};

/// A worker's failure, as sent to other nodes.
struct Failure {
  int rank = 0;
  bool is_victim = false;              ///< it blames a peer
  double ran_seconds = 0;              ///< time from start to end
  std::string description;             ///< "rank 2 (pid 4711) was killed by SIGKILL"
  std::string node;                    ///< name of its node
  std::optional<WorkerExited> exit{};  ///< details for reports; empty: left out for their size

  bool operator==(const Failure&) const = default;
};

// From an agent to the coordinator.

/// The first message of a connection.
struct Join {
  std::uint32_t version = kProtocolVersion;
  std::string run_id;
  std::string name;  ///< name of the node, for display and for the order of ranks
  /// Random id of the agent process: unchanged when the agent reconnects, different after a restart
  /// of the agent.
  std::uint64_t instance = 0;
  /// Serial number of the agent's connection; messages of an earlier one may be handled later.
  int connection = 0;
  int node_rank = -1;  ///< requested rank; -1: any
  int local_world_size = 1;
  std::string role = "default";
  int nodes_min = 1;
  int nodes_max = 1;
  int max_restarts = 0;
  bool is_host = false;       ///< true for the agent in the coordinator's process
  std::string config_hash{};  ///< hash of the configuration file; empty: none
  std::string command{};      ///< command to run; empty: given by the configuration
  int last_round = -1;        ///< highest round that the node took part in; -1: none
  int restarts_used = 0;      ///< restarts used at that time
  /// time since that round was announced, by the node's clock
  std::chrono::milliseconds since_round{0};
  ProbeAddress probe{};  ///< probe endpoint of this agent

  bool operator==(const Join&) const = default;
};

/// RankActivity::work_share of ranks that never wait.
inline constexpr int kWholeWorkShare = 1000;

/// Activity of the ranks of one or more nodes in a round.
struct RankActivity {
  std::chrono::milliseconds wait{0};  ///< longest wait in a collective; 0: none
  /// Median part of the time that ranks do not spend in collectives, in thousandths, at least 1;
  /// -1: unknown.
  std::int32_t work_share = -1;
  /// All ranks that have not ended wait in collectives.
  bool are_all_waiting = false;

  bool operator==(const RankActivity&) const = default;
};

/// Renews the node's lease.
struct Heartbeat {
  std::uint64_t number = 0;
  int round = -1;           ///< latest round of the node; -1: none
  RankActivity activity{};  ///< of the node's ranks

  bool operator==(const Heartbeat&) const = default;
};

/// A worker has failed, so the round cannot succeed.
struct WorkersFailing {
  int round = 0;
  std::string reason;
  bool were_asked = false;  ///< the workers were asked to stop before the failure

  bool operator==(const WorkersFailing&) const = default;
};

/// All processes of the node's workers of the round have ended.
struct WorkersEnded {
  int round = 0;
  bool have_succeeded = false;
  std::string not_started{};        ///< why a worker could not be executed; empty: all could
  std::vector<Failure> failures{};  ///< failures with own causes, root cause first
  /// Workers that exited with code 0 before any worker of the node failed, at most kEarlyExitsMax.
  /// The only one of a round is the root cause if all failures blame a peer.
  std::vector<Failure> early_exits{};
  std::vector<control::RankFlights> flights{};  ///< flight records of its workers
  bool were_asked = false;                      ///< they were asked to stop before they ended
  /// Reason why no other round may follow; nullopt: none.
  std::optional<std::string> no_restart{};

  bool operator==(const WorkersEnded&) const = default;
};

/// A rank that is behind the others.
struct MissingRank {
  int rank = 0;
  std::string doing;  ///< such as "its last was barrier(), 3.1 s earlier"

  bool operator==(const MissingRank&) const = default;
};

/// A connection of a rank whose data is not acknowledged.
struct StalledConnection {
  int rank = 0;
  std::string peer;                      ///< numeric address and port
  std::chrono::milliseconds silence{0};  ///< since the last acknowledgement; 0: none yet
  int retransmissions = 0;

  bool operator==(const StalledConnection&) const = default;
};

/// A node's agent has detected a hang that its ranks or connections cause, or the end
/// of one. The coordinator forwards it to the other nodes.
struct HangNotice {
  int round = 0;
  std::string node{};  ///< name of the node; empty from an agent
  std::chrono::milliseconds time{0};
  bool has_ended = false;  ///< the workers have continued
  bool is_certain = false;
  bool ends_round = false;  ///< the agent stops its workers, so that the round fails
  std::vector<MissingRank> ranks{};
  std::vector<StalledConnection> connections{};

  bool operator==(const HangNotice&) const = default;
};

/// Stacks of a worker, possibly incomplete.
struct StacksTaken {
  int attempt = 0;
  int rank = 0;
  std::vector<int> same{};  ///< other ranks with the same stacks, ascending
  pid_t pid = 0;
  std::string node{};                 ///< name of its node; empty: this node. Not sent
  std::string reason;                 ///< reason for taking them
  std::vector<std::string> means;     ///< tools: "gdb", "py-spy", ...; empty: none succeeded
  std::vector<std::string> problems;  ///< problems of tools that failed
  std::filesystem::path file{};       ///< with all stacks; empty: none. Not sent
  std::vector<std::string> lines;     ///< first lines of the stacks
  bool was_ended = false;             ///< taking the stacks ended the worker

  bool operator==(const StacksTaken&) const = default;
};

/// Stacks of a node's ranks during a hang. The coordinator forwards them to the node with rank 0.
struct StacksNotice {
  int round = 0;
  std::string node{};  ///< name of the node; empty from an agent
  std::vector<StacksTaken> stacks{};

  bool operator==(const StacksNotice&) const = default;
};

/// A rank of a node is slow, or its link to another node, or has recovered. The coordinator
/// forwards it to the node with rank 0.
struct SlowRankNotice {
  int round = 0;
  std::string node{};  ///< name of the node; empty from an agent
  int rank = 0;
  bool is_slow = false;  ///< false: it has recovered
  /// Its time between collectives in multiples of the median, or the time to send data in multiples
  /// of the time before.
  double factor = 1;
  double seconds = 0;   ///< for which it was observed
  std::string doing{};  ///< how it spends its time; empty: unknown
  std::string peer{};   ///< name of the node at the other end of the link; empty: no link

  bool operator==(const SlowRankNotice&) const = default;
};

/// The node leaves the run.
struct Leave {
  std::string reason;  ///< "was asked to stop by SIGTERM"
  int signal = 0;      ///< signal that caused it; 0: none

  bool operator==(const Leave&) const = default;
};

/// The answer to a Probe.
struct Probed {
  std::uint32_t number = 0;                  ///< number of the probe
  std::vector<std::uint32_t> unreachable{};  ///< indices of unreachable peers

  bool operator==(const Probed&) const = default;
};

using NodeMessage = std::variant<Join, Heartbeat, WorkersFailing, WorkersEnded, Leave, Probed,
                                 HangNotice, StacksNotice, SlowRankNotice>;

// From the coordinator to an agent.

struct Welcome {
  std::chrono::milliseconds lease{3000};  ///< 0: unlimited
  std::string warning{};                  ///< warning about this node for the operator; empty: none
  std::string run_nonce{};                ///< see Settings

  bool operator==(const Welcome&) const = default;
};

/// The node cannot join, and a retry would also fail.
struct Refused {
  std::string reason;
  std::string config{};  ///< outline of the run's configuration, if that differs

  bool operator==(const Refused&) const = default;
};

struct HeartbeatAnswer {
  std::uint64_t number = 0;
  int round = -1;           ///< latest round; -1: none
  RankActivity activity{};  ///< waits: of other nodes; work share: of all nodes

  bool operator==(const HeartbeatAnswer&) const = default;
};

/// Message for the operator: nodes that are present or missing.
struct Waiting {
  std::string text;
  bool is_warning = false;  ///< needs attention

  bool operator==(const Waiting&) const = default;
};

/// The round has ended, and another one follows.
struct NextRound {
  int round = 0;
  std::string reason;
  std::chrono::milliseconds delay{0};  ///< delay before the next round

  bool operator==(const NextRound&) const = default;
};

struct NodePlace {
  std::string name;
  std::string role;
  int local_world_size = 1;
  std::string address{};  ///< numeric address; empty: unknown
  bool is_host = false;   ///< see Join

  bool operator==(const NodePlace&) const = default;
};

struct RoundFormed {
  int round = 0;
  int restarts_used = 0;
  std::vector<NodePlace> nodes{};  ///< nodes by node rank
  int node_rank = 0;               ///< node rank of the receiver
  std::uint16_t store_port = 0;    ///< port of the worker store on the coordinator's host

  bool operator==(const RoundFormed&) const = default;
};

/// Requests the agent to stop its workers, report their end, and wait for the next round.
struct StopWorkers {
  int round = 0;
  std::string reason;
  /// true if there is no failure: workers may save their state, as after a request of the operator.
  bool is_orderly = false;
  int signal = 0;  ///< signal that ends the run after this round; 0: another round may follow

  bool operator==(const StopWorkers&) const = default;
};

enum class RunResult : std::uint8_t {
  succeeded,
  failed,         ///< a worker failed, and no restarts were left
  not_started,    ///< a worker could not be executed
  interrupted,    ///< interrupted by a signal to the agent
  no_rendezvous,  ///< the nodes did not meet, or too few were left
  // Used only within an agent; never sent.
  unfit,         ///< the preflight found a fault of this node; no worker was started
  agent_failed,  ///< the agent could not continue: no folder, descriptor or memory was left
};

/// Last result that agents send to each other.
inline constexpr RunResult kLastSharedResult = RunResult::no_rendezvous;

/// The nodes for which the run has ended.
enum class OutcomeScope : std::uint8_t {
  run,   ///< all nodes
  node,  ///< only this node; the others may continue
};

/// End of a run.
struct RunOutcome {
  RunResult result = RunResult::succeeded;
  OutcomeScope scope = OutcomeScope::run;
  int rounds = 0;  ///< number of rounds formed
  std::string reason;
  int signal = 0;                               ///< signal that interrupted it; 0: none
  std::vector<Failure> failures{};              ///< failures in the last round, root cause first
  std::vector<control::RankFlights> flights{};  ///< flights in the last round, by rank

  bool operator==(const RunOutcome&) const = default;
};

struct Finish {
  RunOutcome outcome;

  bool operator==(const Finish&) const = default;
};

/// Requests the agent to connect to these peers.
struct Probe {
  std::uint32_t number = 0;
  std::chrono::milliseconds timeout{0};  ///< timeout of each connection attempt
  std::vector<ProbeAddress> peers{};     ///< port 0: not to be probed

  bool operator==(const Probe&) const = default;
};

using CoordinatorMessage =
    std::variant<Welcome, Refused, HeartbeatAnswer, Waiting, RoundFormed, StopWorkers, Finish,
                 Probe, NextRound, HangNotice, StacksNotice, SlowRankNotice>;

}  // namespace ddprun::membership
