// What a start by ssh makes of the fates of its nodes: whether the run can still come about, and
// the exit code of the whole. Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace ddprun::ssh {

/// What is known of one node.
struct NodeResult {
  enum class State {
    left_out,  ///< of this run
    starting,
    running,
    not_started,
    ended,
    lost,
  };
  State state = State::starting;
  int exit_code = 0;         ///< if ended; negative: minus a signal
  int order = 0;             ///< when it ended among the others
  bool has_refused = false;  ///< if ended: it said why it would not run what it was told

  bool operator==(const NodeResult&) const = default;
};

struct RunFacts {
  std::vector<NodeResult> nodes;
  std::size_t nodes_min = 1;        ///< fewer cannot run
  std::optional<std::size_t> host;  ///< the node that hosts the rendezvous; nothing: none of them
  std::string host_name{};
  int interrupted_by = 0;     ///< the operator's first signal that asked for the end
  bool is_cut_short = false;  ///< by a decision to stop
};

struct SshDecision {
  enum class Action {
    wait,
    stop,        ///< those that run must be asked to end now: they wait for nodes in vain
    stop_later,  ///< the same if they have not ended by themselves after a while
    finish,      ///< all have ended
  };
  Action action = Action::wait;
  std::string reason;
  int exit_code = 0;  ///< for finish

  bool operator==(const SshDecision&) const = default;
};

SshDecision decide(const RunFacts& facts);

/// What the starter itself has to say of the end, as the nodes cannot: that the run was stopped for
/// `stop_reason`, with the `losses` that led to it, or that the operator's signal came before
/// anybody could answer it. Empty: the nodes have said it.
std::string describe_end(const RunFacts& facts, const std::string& stop_reason,
                         const std::vector<std::string>& losses);

}  // namespace ddprun::ssh
