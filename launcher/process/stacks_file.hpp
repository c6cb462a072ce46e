// The file with the stacks of a worker, in order of their captures. Thread-safe.
#pragma once

#include "launcher/report/event.hpp"
#include "rendezvous/base/held_path.hpp"

#include <string>

namespace ddprun {

/// Appends the stacks with a heading. Returns the error, or an empty text on success.
std::string append_stacks(const HeldPath& file, const StacksTaken& taken);

}  // namespace ddprun
