// Processes that hold memory of a GPU and do not belong to the run: often those of an earlier run,
// because of which the memory does not suffice.
#pragma once

#include "worker_runtime/preflight/nvml.hpp"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace ddprun::preflight {

/// A running process.
struct ProcessFacts {
  std::string name;
  int parent = 0;  ///< pid
  bool is_of_other_user = false;
};

/// Returns nullopt if the process has ended, or is hidden from this user.
std::optional<ProcessFacts> find_process(int pid);

/// Returns a remark such as "process 4711 (python3, of another user) holds 30.2 GiB of its memory",
/// or an empty string. Processes with the same parent as `own` check the node, too, and are not
/// named. A list without `own` is ignored: its numbers are those of another PID namespace. `find`
/// is find_process(), except in tests. Thread-safe.
std::string remark_on_holders(
    const std::vector<GpuProcess>& processes, int own,
    const std::function<std::optional<ProcessFacts>(int pid)>& find = find_process);

}  // namespace ddprun::preflight
