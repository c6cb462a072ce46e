// What the text of a Python program tells about the store that it needs. Pure.
#pragma once

#include <string_view>

namespace ddprun {

/// Returns true if the program starts processes, such as by mp.spawn, and a statement assigns to
/// os.environ["MASTER_PORT"]: their process groups meet at that port, where PyTorch must host the
/// store. Returns false if the program looks for a launcher: it then uses the launcher's port.
bool sets_master_port(std::string_view program);

}  // namespace ddprun
