// Checks of a node's Join: against the settings of the run, and against the nodes that are
// connected. Pure.
#pragma once

#include "rendezvous/base/problem.hpp"
#include "rendezvous/membership/messages.hpp"
#include "rendezvous/membership/roster.hpp"
#include "rendezvous/membership/settings.hpp"

#include <cstdint>
#include <optional>
#include <string>

namespace ddprun::membership {

/// Returns why a run with these settings refuses this node name; nullopt if it accepts it.
Problem objection_to_name(const std::string& name, const Settings& settings);

/// Returns why a node with this protocol version is refused; nullopt if it is accepted.
Problem objection_to_version(std::uint32_t version);

/// Returns why a node with this Join is refused; nullopt if it is accepted.
Problem objection_to(const Join& join, const Settings& settings);

/// Returns the outline of the run's configuration for a node with another configuration; otherwise
/// empty.
std::string config_to_show(const Join& join, const Settings& settings);

/// Warnings about nodes that can join, but that look like an operator's mistake.
class JoinWarnings {
 public:
  /// Returns the warnings about this node for its operator; empty: none. The command of the first
  /// node is remembered.
  std::string of(const Join& join, const Roster& roster);

 private:
  Problem compare_command(const Join& join);

  std::string first_node_;  ///< first node that reported its command
  std::string first_command_;
};

}  // namespace ddprun::membership
