// Who has come less far in a group's collectives than this rank, by the flight recorders of this
// node's workers: for backends whose library does not know. Any thread.
#pragma once

#include "rendezvous/control/control_page.hpp"

#include <string>

namespace ddprun {

/// "rank(s) 2 had not entered it", for the collective that the worker with `slot` has entered last
/// in that group; empty if nobody is known not to have. Workers of other nodes are not known.
std::string recorded_hold_up(const control::ControlPage& page, int slot, const std::string& group);

}  // namespace ddprun
