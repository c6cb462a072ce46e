// What the text of a Python program tells about the store that it needs. Pure.
#pragma once

#include <string_view>

namespace ddprun {

/// Returns true if a statement assigns to os.environ["MASTER_PORT"]: process groups of the program,
/// such as those of mp.spawn, then meet at that port, where PyTorch must host the store. Returns
/// false if the program tests whether the variable is missing.
bool sets_master_port(std::string_view program);

}  // namespace ddprun
