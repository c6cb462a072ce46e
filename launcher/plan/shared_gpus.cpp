#include "launcher/plan/shared_gpus.hpp"

namespace ddprun {

std::vector<std::pair<std::string, std::string>> shared_gpu_environment(
    const std::string& host, int local_rank,
    const std::function<std::optional<std::string>(const char*)>& inherited) {
  const std::pair<const char*, std::string> wanted[] = {
      // NCCL (at least up to 2.30) identifies machines by this; with different values its check
      // passes.
      {"NCCL_HOSTID", "ddprun-" + host + "-" + std::to_string(local_rank)},
      {"NCCL_NET", "Socket"},
      {"NCCL_IB_DISABLE", "1"},
      {"NCCL_MNNVL_ENABLE", "0"},
      {"NCCL_NVLS_ENABLE", "0"},
      {"NCCL_RAS_ENABLE", "0"},  // its port is shared by the machine
      // The kernels of all ranks must fit on the device at the same time.
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
