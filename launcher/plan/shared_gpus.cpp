#include "launcher/plan/shared_gpus.hpp"

namespace ddprun {

std::vector<std::pair<std::string, std::string>> shared_gpu_environment(
    const std::string& host, int local_rank,
    const std::function<std::optional<std::string>(const char*)>& inherited) {
  const std::pair<const char*, std::string> wanted[] = {
      // What NCCL tells machines apart by, until 2.30 and after: with it the check passes.
      {"NCCL_HOSTID", "ddprun-" + host + "-" + std::to_string(local_rank)},
      {"NCCL_NET", "Socket"},
      {"NCCL_IB_DISABLE", "1"},
      {"NCCL_MNNVL_ENABLE", "0"},
      {"NCCL_NVLS_ENABLE", "0"},
      {"NCCL_RAS_ENABLE", "0"},  // its port is the machine's
      // The kernels of all ranks have to find room on the device at once.
      {"NCCL_MAX_NCHANNELS", "2"},
      {"NCCL_ALGO", "Ring"},
      {"NCCL_PROTO", "Simple"},
  };
  std::vector<std::pair<std::string, std::string>> environment;
  for (const auto& [name, value] : wanted) {
    if (!inherited(name)) environment.emplace_back(name, value);
  }
  return environment;
}

}  // namespace ddprun
