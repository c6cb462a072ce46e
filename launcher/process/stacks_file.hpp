// The file in which the stacks of a worker are kept, one capture after the other. Any thread.
#pragma once

#include "launcher/report/event.hpp"
#include "rendezvous/base/held_path.hpp"

#include <string>

namespace ddprun {

/// Appends the stacks with a heading; returns why that could not be done, or nothing.
std::string append_stacks(const HeldPath& file, const StacksTaken& taken);

}  // namespace ddprun
