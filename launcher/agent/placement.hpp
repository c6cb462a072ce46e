// Conversions between the membership's messages and the agent's plan, placement and reports. Pure.
#pragma once

#include "launcher/agent/attempt.hpp"
#include "launcher/agent/worker_specs.hpp"
#include "rendezvous/membership/node_state_machine.hpp"

#include <cstdint>
#include <string>

namespace ddprun {

/// Returns the settings of the run's membership. A plan without nodes gives a membership of one.
membership::Settings membership_settings(const LaunchPlan& plan);

/// Returns this node's join request. See Join for `instance`.
membership::Join make_join(const LaunchPlan& plan, std::uint64_t instance, bool is_host);

/// Returns the address of the workers' store; with several nodes, the address of the rendezvous.
std::string store_text(const LaunchPlan& plan, std::uint16_t port);

/// Adds the differences between the configurations of this node and of the node that rejected it.
void explain(membership::Refused& refused, const std::string& config_outline);

/// Returns this node's placement. `store_host`: address at which this node reached the store.
NodePlacement make_placement(const membership::RoundFormed& round, const std::string& store_host);

/// Returns the coordinator's message about the end of this node's workers.
membership::OwnWorkersEnded make_end(const AttemptEnd& end, const LaunchPlan& plan);

/// Returns the result of the run for the report. `only` is the last attempt of a single-node run,
/// which has more details than the outcome; null with several nodes. `advice` is appended to the
/// reason.
RunFinished make_run_finished(const membership::RunOutcome& outcome, const LaunchPlan& plan,
                              const AttemptEnd* only, const std::string& advice);

}  // namespace ddprun
