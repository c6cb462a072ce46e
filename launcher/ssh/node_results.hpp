// Decides from the states of all nodes whether a run over ssh can continue, and its exit code.
// Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace ddprun::ssh {

struct NodeResult {
  enum class State {
    left_out,  ///< not part of this run
    starting,
    running,
    not_started,
    ended,  ///< its agent has ended
    lost,   ///< the connection has ended before the agent
  };
  State state = State::starting;
  int exit_code = 0;         ///< of the agent, if ended; negative: the negated signal
  int order = 0;             ///< position among the nodes that ended
  bool has_refused = false;  ///< if ended: the agent rejected its options and started no workers

  bool operator==(const NodeResult&) const = default;
};

struct RunFacts {
  std::vector<NodeResult> nodes;
  std::size_t nodes_min = 1;        ///< nodes that the run needs
  std::optional<std::size_t> host;  ///< index of the rendezvous host, if it is one of the nodes
  std::string host_name{};
  int interrupted_by = 0;     ///< first stop signal of the operator; 0: none
  bool is_cut_short = false;  ///< the run was stopped by a decision
};

struct Decision {
  enum class Action {
    wait,
    stop,        ///< stop all nodes now: they wait for nodes that will not join
    stop_later,  ///< stop all nodes that have not ended after a grace period
    finish,      ///< all nodes have ended
  };
  Action action = Action::wait;
  std::string reason;  ///< for stop and stop_later
  int exit_code = 0;   ///< for finish

  bool operator==(const Decision&) const = default;
};

Decision decide(const RunFacts& facts);

/// Returns why the run has ended if the nodes cannot report it: it was stopped for `stop_reason`,
/// after `losses` of nodes, or by a signal before an agent could report.
std::optional<std::string> describe_end(const RunFacts& facts, const std::string& stop_reason,
                                        const std::vector<std::string>& losses);

}  // namespace ddprun::ssh
