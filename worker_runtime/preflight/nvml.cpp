#include "worker_runtime/preflight/nvml.hpp"

#include <dlfcn.h>

#include <vector>

namespace ddprun::preflight {

namespace {

// Parts of nvml.h, which belongs to the CUDA toolkit.
using Handle = void*;
using Result = int;
constexpr Result kSuccess = 0;
constexpr int kUncorrected = 1;
constexpr int kSinceReset = 0;
constexpr unsigned kNoInstance = ~0U;
constexpr auto kUnknown = ~std::uint64_t{0};
// More processes than a GPU serves at a time.
constexpr unsigned kProcessesMax = 1024;

/// nvmlProcessInfo_t since version 2.
struct ProcessInfo {
  unsigned pid;
  unsigned long long memory_bytes;
  unsigned gpu_instance;
  unsigned compute_instance;
};

template <typename Function>
bool find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  return function != nullptr;
}

}  // namespace

struct Nvml::Functions {
  Result (*init)() = nullptr;
  Result (*by_address)(const char* address, Handle* device) = nullptr;
  // Null in older drivers.
  Result (*ecc_errors)(Handle device, int type, int counter, unsigned long long* count) = nullptr;
  Result (*remapped_rows)(Handle device, unsigned* corrected, unsigned* uncorrected,
                          unsigned* is_pending, unsigned* has_failed) = nullptr;
  Result (*clock_reasons)(Handle device, unsigned long long* reasons) = nullptr;
  Result (*processes)(Handle device, unsigned* count, ProcessInfo* infos) = nullptr;

  std::vector<GpuProcess> processes_of(Handle device) const;
};

std::vector<GpuProcess> Nvml::Functions::processes_of(Handle device) const {
  unsigned count = kProcessesMax;
  // Some drivers of series 535 write larger records.
  std::vector<ProcessInfo> infos(2 * count);
  std::vector<GpuProcess> found;
  if (processes == nullptr || processes(device, &count, infos.data()) != kSuccess) return found;
  infos.resize(count);
  for (const auto& info : infos) {
    // Those of MIG instances share no memory with others.
    const auto pid = static_cast<int>(info.pid);
    if (info.gpu_instance != kNoInstance || pid <= 0) continue;
    found.push_back({.pid = pid});
    if (info.memory_bytes != kUnknown) found.back().memory_bytes = info.memory_bytes;
  }
  return found;
}

std::optional<Nvml> Nvml::open(const char* file) {
  void* const library = ::dlopen(file, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return std::nullopt;
  const auto all = std::make_shared<Functions>();
  const bool is_usable = find(library, "nvmlInit_v2", all->init) &&
                         find(library, "nvmlDeviceGetHandleByPciBusId_v2", all->by_address);
  if (!is_usable || all->init() != kSuccess) return std::nullopt;
  find(library, "nvmlDeviceGetTotalEccErrors", all->ecc_errors);
  find(library, "nvmlDeviceGetRemappedRows", all->remapped_rows);
  find(library, "nvmlDeviceGetCurrentClocksThrottleReasons", all->clock_reasons);
  // The same function; drivers have either or both.
  if (!find(library, "nvmlDeviceGetComputeRunningProcesses_v3", all->processes))
    find(library, "nvmlDeviceGetComputeRunningProcesses_v2", all->processes);
  return Nvml(all);
}

std::optional<GpuState> Nvml::state_of(const std::string& address) const {
  const auto& call = *functions_;
  Handle device = nullptr;
  if (call.by_address(address.c_str(), &device) != kSuccess) return std::nullopt;
  GpuState state;
  unsigned long long number = 0;
  if (call.ecc_errors != nullptr &&
      call.ecc_errors(device, kUncorrected, kSinceReset, &number) == kSuccess)
    state.uncorrected_errors = number;
  unsigned corrected = 0, uncorrected = 0, is_pending = 0, has_failed = 0;
  if (call.remapped_rows != nullptr &&
      call.remapped_rows(device, &corrected, &uncorrected, &is_pending, &has_failed) == kSuccess) {
    state.is_remap_pending = is_pending != 0;
    state.has_remap_failed = has_failed != 0;
  }
  if (call.clock_reasons != nullptr && call.clock_reasons(device, &number) == kSuccess)
    state.clock_reasons = number;
  state.processes = call.processes_of(device);
  return state;
}

}  // namespace ddprun::preflight
