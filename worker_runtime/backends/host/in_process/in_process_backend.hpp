// Ranks that are threads of one process: the collectives of shared memory over an anonymous
// mapping.
#pragma once

#include "worker_runtime/backends/host/shared_memory/shared_memory_backend.hpp"
#include <ddprun/group_options.hpp>

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace ddprun {

/// Where the ranks of a group find the memory of groups of some of them. Any thread.
class InProcessRegions {
 public:
  /// That of the group with the name in `options`, for whoever asks while another rank has it.
  std::shared_ptr<const shared_memory::Region> get(int ranks, const GroupOptions& options);

 private:
  std::mutex mutex_;
  std::map<std::string, std::weak_ptr<const shared_memory::Region>> by_name_;
};

/// One backend per rank. `reach` is there for tests, which take the ways of separate processes with
/// it.
std::vector<std::unique_ptr<Backend>> create_in_process_backends(
    int size, const GroupOptions& options,
    shared_memory::Reach reach = shared_memory::Reach::everything);

}  // namespace ddprun
