// What lets several workers of a node use the same GPU over NCCL, which refuses two ranks of a
// machine on one device. Pure.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace ddprun {

/// Variables for the worker `local_rank` of machine `host`. Each worker says that it is a machine
/// of its own, so NCCL connects them by sockets; the rest keeps what that needs small. None that
/// `inherited` has a value for: the operator knows better.
std::vector<std::pair<std::string, std::string>> shared_gpu_environment(
    const std::string& host, int local_rank,
    const std::function<std::optional<std::string>(const char*)>& inherited);

}  // namespace ddprun
