// Backend of ranks that are threads of one process: shared memory over an anonymous mapping.
#pragma once

#include "worker_runtime/backends/host/shared_memory/shared_memory_backend.hpp"
#include <ddprun/group_options.hpp>

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace ddprun {

/// Shared memory of the subgroups of a group of threads. Thread-safe.
class InProcessRegions {
 public:
  /// Returns the region of the group with the name in `options`; creates it unless another rank has
  /// done so.
  std::shared_ptr<const shared_memory::Region> get(int ranks, const GroupOptions& options);

 private:
  std::mutex mutex_;
  std::map<std::string, std::weak_ptr<const shared_memory::Region>> by_name_;
};

/// Returns one backend per rank. Tests set `reach` to exercise the data paths of processes.
std::vector<std::unique_ptr<Backend>> create_in_process_backends(
    int size, const GroupOptions& options,
    shared_memory::Reach reach = shared_memory::Reach::everything);

}  // namespace ddprun
