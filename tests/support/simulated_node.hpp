// A node of a simulated run, its connection and its workers: state of simulated_run.hpp.
#pragma once

#include "rendezvous/membership/coordination.hpp"
#include "rendezvous/membership/node_state_machine.hpp"

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace ddprun::test {

using namespace membership;
using membership::Time;
using std::chrono::milliseconds;

/// Time limit for the detection of a connection reset.
inline constexpr milliseconds kNotice(50);
/// Time limit for the death of killed workers: the node's margin of a lease.
inline constexpr milliseconds kKill(100);
inline constexpr milliseconds kConnectTimeout(2000);

/// A machine's monotonic clock: its start differs from that of others, and it is slightly fast or
/// slow.
struct NodeClock {
  std::chrono::seconds ahead{0};
  int fast_permille = 0;

  Time shows(Time when) const {
    const auto since = when.time_since_epoch();
    return Time(since + since / 1000 * fast_permille + ahead);
  }
  /// Time at which the clock shows this value, rounded up.
  Time when_it_shows(Time shown) const {
    const auto since = shown.time_since_epoch() - ahead;
    return Time(since * 1000 / (1000 + fast_permille) + std::chrono::microseconds(1));
  }
};

struct Connection {
  NodeId id = 0;
  int node = 0;
  int agent = 0;        ///< index of the node's agent
  int incarnation = 0;  ///< of the coordinator at its other end
  bool is_open_at_node = true;
  bool is_open_at_coordinator = true;
  Time last_to_node{};
  Time last_to_coordinator{};
};

/// Pending input of a stopped agent. Input of a connection that it has given up is discarded.
struct Unread {
  NodeEvent event;
  std::shared_ptr<Connection> connection;  ///< connection; null: none
};

struct Node {
  std::string name;
  int wanted_rank = -1;
  milliseconds lease{3000};  ///< granted by the coordinator while it is part of this node
  NodeClock clock;
  int agent = 0;  ///< number of agents that have run on it
  std::unique_ptr<NodeStateMachine> part;
  std::shared_ptr<Connection> connection;
  bool is_paused = false;
  bool is_cut = false;
  std::vector<Unread> backlog;              ///< while it is paused
  std::vector<std::function<void()>> held;  ///< by the network, while it is cut
  std::optional<Time> planned_wake;

  bool has_workers = false;
  int life = 0;  ///< number of starts of workers
  bool are_ending = false;
  bool has_leftover = false;  ///< a process of this agent's workers that cannot be killed
  RoundFormed round;
  int incarnation = 0;
  Time excused_until;  ///< its workers are ending
  Time guarded_until;
  std::optional<RunOutcome> outcome;
};

}  // namespace ddprun::test
