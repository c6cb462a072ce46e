// Environment variables that let several workers use one GPU with NCCL, which rejects two ranks of
// a machine on one device. Pure.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace ddprun {

/// Returns variables for the worker `local_rank` of machine `host`, without those that `inherited`
/// has. For NCCL each worker is a separate machine, so it connects them by sockets; the other
/// variables limit the resources of these connections.
std::vector<std::pair<std::string, std::string>> shared_gpu_environment(
    const std::string& host, int local_rank,
    const std::function<std::optional<std::string>(const char*)>& inherited);

}  // namespace ddprun
