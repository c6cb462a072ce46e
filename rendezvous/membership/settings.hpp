// Settings of a run's membership, and the texts that its messages share. Pure.
#pragma once

#include "rendezvous/membership/messages.hpp"
#include "rendezvous/membership/restart_budget.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace ddprun::membership {

using Time = std::chrono::steady_clock::time_point;

/// Heartbeats per lease; two may be late.
inline constexpr int kHeartbeatsPerLease = 6;

struct Settings {
  std::string run_id;
  std::string config_hash{};  ///< hash of the configuration file; empty: none
  /// Outline of the configuration for nodes with another file; may be empty.
  std::string config_outline{};
  /// Nonce by which nodes recognise values of this run in etcd; empty without etcd or without a
  /// secret.
  std::string run_nonce{};
  /// Port of the worker store; 0: chosen by the kernel in a run with a secret, the rendezvous port
  /// in an open run.
  std::uint16_t store_port = 0;
  int nodes_min = 1;
  int nodes_max = 1;
  /// Names of the expected nodes, as in Join; empty: unknown.
  std::vector<std::string> expected_nodes{};
  RestartSettings restarts{};
  /// Maximum bytes of a node's name as JSON, to bound the record of the run; 0: there is no record.
  std::size_t recorded_name_bytes_max = 0;

  /// Time to wait for nodes_min nodes, at the start and after each loss.
  std::chrono::milliseconds join_timeout = std::chrono::seconds(600);
  /// Additional time to wait for more than nodes_min nodes before the first round. Later rounds do
  /// not wait.
  std::chrono::milliseconds last_call_timeout = std::chrono::seconds(30);
  /// Time without a heartbeat after which a node is lost; 0: never, as in a single-node run.
  std::chrono::milliseconds lease = std::chrono::seconds(3);
  /// Maximum wait of nodes whose workers have succeeded for the others.
  std::chrono::milliseconds exit_barrier_timeout = std::chrono::seconds(300);
  /// Time in which a node that has lost the coordinator tries to find it again.
  std::chrono::milliseconds rejoin_timeout = std::chrono::seconds(30);
  /// Timeout for the coordinator's answer to a join.
  std::chrono::milliseconds answer_timeout = std::chrono::seconds(10);
  /// Grace period of workers that are asked to stop, the same on all nodes.
  std::chrono::milliseconds shutdown_timeout = std::chrono::seconds(30);
  /// Maximum wait of the coordinator for the nodes to leave at the end of the run.
  std::chrono::milliseconds farewell_timeout = std::chrono::seconds(5);
  /// Timeout for the greeting and, in a run with a secret, the authentication of a connection.
  std::chrono::milliseconds handshake_timeout = std::chrono::seconds(2);
  /// Timeout for the Join after that.
  std::chrono::milliseconds introduction_timeout = std::chrono::seconds(10);
  /// Timeout of a probe connection between agents; 0: nodes are not probed.
  std::chrono::milliseconds probe_timeout = std::chrono::seconds(2);
  /// Interval of notices about missing nodes; the first one comes sooner.
  std::chrono::milliseconds waiting_notice = std::chrono::seconds(30);

  /// Returns true for a single-node run, whose agent and coordinator share a process.
  bool is_local() const { return lease.count() == 0; }

  bool operator==(const Settings&) const = default;
};

/// Maximum bytes of a node's name and of its role, so that the largest round fits into a message.
inline constexpr std::size_t kNameBytesMax = 255;

/// Returns text such as "a, b and 7 more": sorted, at most kNamesListedMax names.
std::string listed(std::vector<std::string> names);

/// Time of the first notice of a node that begins to wait now. Rounds usually begin before it.
/// Nodes that join at about the same time are notified together.
Time first_notice(Time now);

/// Returns text such as "3 s", "2.5 s".
std::string seconds_text(std::chrono::milliseconds time);

/// Returns text such as "1 node", "2 nodes".
std::string counted_nodes(int count);

}  // namespace ddprun::membership
