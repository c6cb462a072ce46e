// From what the nodes of a run agree on to what a node does, and from what it did to what the
// others need to know. Pure.
#pragma once

#include "launcher/agent/attempt.hpp"
#include "launcher/agent/worker_specs.hpp"
#include "rendezvous/membership/node_state_machine.hpp"

#include <cstdint>
#include <string>

namespace ddprun {

/// Those of the run's membership, which has one member if the plan has no nodes.
membership::Settings membership_settings(const LaunchPlan& plan);

/// What this node says of itself; `instance` as in Join.
membership::Join make_join(const LaunchPlan& plan, std::uint64_t instance, bool is_host);

/// Where the workers' store is or, of several nodes, where these meet.
std::string store_text(const LaunchPlan& plan, std::uint16_t port);

/// Adds where this node's configuration differs from the one of the node that refuses it.
void explain(membership::Refused& refused, const std::string& config_outline);

/// `store_host`: by which this node reached the store.
NodePlacement make_placement(const membership::RoundFormed& round, const std::string& store_host);

/// How the workers of this node ended, for the coordinator.
membership::OwnWorkersEnded make_end(const AttemptEnd& end, const LaunchPlan& plan);

/// How the run ended, for the report. `only` is the last attempt of an only node, which knows more
/// of it than the outcome does; else null. `advice` is added to the reason.
RunFinished make_finished(const membership::RunOutcome& outcome, const LaunchPlan& plan,
                          const AttemptEnd* only, const std::string& advice);

}  // namespace ddprun
