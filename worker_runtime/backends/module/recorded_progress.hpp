// Ranks of this node that are behind in a group's collectives, according to their flight recorders.
// For backends whose library does not provide this. Any thread.
#pragma once

#include "rendezvous/control/control_page.hpp"

#include <string>

namespace ddprun {

/// Returns "rank(s) 2 had not entered it" for the last collective of the worker with `slot` in that
/// group; empty if all workers of this node have entered it.
std::string recorded_hold_up(const control::ControlPage& page, int slot, const std::string& group);

}  // namespace ddprun
