// The settings of a run's membership, and what is said when nodes disagree about them or are
// missing. Pure.
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

/// Heartbeats in the time of one lease: two may be late without harm.
inline constexpr int kHeartbeatsPerLease = 6;

struct Settings {
  std::string run_id;
  std::string config_hash{};  ///< of the configuration file that all nodes must have; empty: none
  /// What nodes with another file are shown of it, to find the difference; empty: nothing.
  std::string config_outline{};
  /// By which nodes recognise what a later coordinator finds of this run in etcd; empty: there is
  /// no etcd, or no secret.
  std::string run_nonce{};
  /// Of the workers' store; 0: in a run with a secret the kernel chooses it, in an open one it is
  /// that of the rendezvous.
  std::uint16_t store_port = 0;
  int nodes_min = 1;
  int nodes_max = 1;
  /// The names of the nodes that may come, as they will say them; empty: they are not known.
  std::vector<std::string> expected_nodes{};
  RestartSettings restarts{};
  /// Of a node's name as JSON, if a record of the run is kept that must not become too long; 0:
  /// there is none.
  std::size_t recorded_name_bytes_max = 0;

  /// For the least number of nodes to be there, from the start and after each loss.
  std::chrono::milliseconds join_timeout = std::chrono::seconds(600);
  /// For more than the least number, once those are there; only before the first round, since
  /// later ones have nobody to wait for but who is there.
  std::chrono::milliseconds last_call_timeout = std::chrono::seconds(30);
  /// Time after which a silent node is lost; 0: never, as in a run of one node.
  std::chrono::milliseconds lease = std::chrono::seconds(3);
  /// How long nodes whose workers have succeeded wait for the others.
  std::chrono::milliseconds exit_barrier_timeout = std::chrono::seconds(300);
  /// How long a node that has lost the coordinator tries to find it again.
  std::chrono::milliseconds rejoin_timeout = std::chrono::seconds(30);
  /// How long a coordinator may take to answer a node that joins: whoever accepts a connection and
  /// then says nothing is stopped, or no coordinator at all.
  std::chrono::milliseconds answer_timeout = std::chrono::seconds(10);
  /// How long workers that are asked to stop may take for that, on any node.
  std::chrono::milliseconds shutdown_timeout = std::chrono::seconds(30);
  /// How long the coordinator waits at the end for the nodes to take leave.
  std::chrono::milliseconds farewell_timeout = std::chrono::seconds(5);
  /// For a connection to greet and, in a run with a secret, to prove that it knows it: an agent
  /// does so at once, and whoever does not is a stranger.
  std::chrono::milliseconds handshake_timeout = std::chrono::seconds(2);
  /// For it to join afterwards: an agent does that at once, too.
  std::chrono::milliseconds introduction_timeout = std::chrono::seconds(10);
  /// Of an agent's attempt to connect to another one, which shows whether workers could; 0: nodes
  /// are not probed.
  std::chrono::milliseconds probe_timeout = std::chrono::seconds(2);
  /// How often operators are told what is being waited for, after a first time soon.
  std::chrono::milliseconds waiting_notice = std::chrono::seconds(30);

  /// True for a run of one node: its agent and the coordinator share a process.
  bool is_local() const { return lease.count() == 0; }

  bool operator==(const Settings&) const = default;
};

/// Of a node's name and of its role, so that a round of very many nodes fits into a message.
inline constexpr std::size_t kNameBytesMax = 255;

/// Why no node of a run with these settings can have this name; empty if one can.
std::string objection_to_name(const std::string& name, const Settings& settings);

/// Why a node with this version of the messages cannot take part; empty if it can.
std::string objection_to_version(std::uint32_t version);

/// Why a node that says this cannot take part in a run with these settings; empty if it can.
std::string objection_to(const Join& join, const Settings& settings);

/// The outline of the run's configuration, for a node that has another one; empty for others.
std::string config_to_show(const Join& join, const Settings& settings);

/// "2 nodes of at least 3 are here (a, b); c was in the last round and has not come back"; before
/// the first round the expected nodes that are missing.
std::string describe_waiting(const std::vector<std::string>& present,
                             const std::vector<std::string>& last_round, const Settings& settings);

/// The same at the end of the join timeout: "only 1 of at least 3 nodes came within 600 s
/// (join_timeout): a; missing: b, c".
std::string describe_shortage(const std::vector<std::string>& present,
                              const std::vector<std::string>& last_round, const Settings& settings);

/// "a, b and 7 more": sorted, and at most kNamesListedMax.
std::string listed(std::vector<std::string> names);

/// When a node that begins to wait now first hears for what: the round usually begins before that,
/// and then there is nothing to say. Those that come about the same time hear at the same time.
Time first_notice(Time now);

/// "3 s", "2.5 s".
std::string seconds_text(std::chrono::milliseconds time);

/// "1 node", "2 nodes".
std::string counted_nodes(int count);

}  // namespace ddprun::membership
