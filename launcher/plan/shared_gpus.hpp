// Environment variables that let several workers use one GPU with NCCL, which rejects two ranks of
// a machine on one device. Pure.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace ddprun {

/// Returns variables for the worker `local_rank` of machine `host`, except variables in
/// `inherited`. NCCL sees each worker as a separate machine and connects them by sockets. The other
/// variables limit the resources of these connections.
std::vector<std::pair<std::string, std::string>> shared_gpu_environment(
    const std::string& host, int local_rank,
    const std::function<std::optional<std::string>(const char*)>& inherited);

}  // namespace ddprun
