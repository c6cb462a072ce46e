// NVML for tests: the GPUs of the file that DDPRUN_FAKE_NVML names. Its lines:
//   init CODE                                      result of the initialisation
//   gpu ADDRESS ECC_ERRORS PENDING FAILED REASONS  -1: not supported by this GPU
//   process ADDRESS PID BYTES INSTANCE  PID 0: the caller; BYTES, INSTANCE -1: unknown, no instance
// Fails like the real library: 1 uninitialised, 2 invalid argument, 3 not supported, 6 not found,
// 7 insufficient size, 9 driver not loaded.
#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>
#include <string>
#include <unistd.h>
#include <vector>

namespace {

struct Gpu {
  std::string address;
  long long ecc_errors = -1, is_pending = -1, has_failed = -1, reasons = -1;
};

/// nvmlProcessInfo_t since version 2.
struct Process {
  unsigned pid = 0;
  unsigned long long bytes = 0;
  unsigned gpu_instance = 0, compute_instance = 0;
};

struct State {
  int init = 0;
  std::vector<Gpu> gpus;
  std::multimap<std::string, Process> processes;  ///< by the GPU's address
};

State read_state() {
  State state;
  const char* const path = std::getenv("DDPRUN_FAKE_NVML");
  if (path == nullptr) return {.init = 9};
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string kind;
    words >> kind;
    Gpu gpu;
    if (kind == "init") words >> state.init;
    if (kind == "gpu" &&
        words >> gpu.address >> gpu.ecc_errors >> gpu.is_pending >> gpu.has_failed >> gpu.reasons)
      state.gpus.push_back(gpu);
    std::string address;
    long long pid = 0, bytes = 0, instance = 0;
    if (kind == "process" && words >> address >> pid >> bytes >> instance) {
      const auto number = static_cast<unsigned>(pid == 0 ? ::getpid() : pid);
      const auto place = static_cast<unsigned>(instance);
      const Process process{number, static_cast<unsigned long long>(bytes), place, place};
      state.processes.emplace(address, process);
    }
  }
  return state;
}

bool is_initialised = false;

/// Handles are the positions of the GPUs plus one.
void* handle_of(std::size_t index) {
  return reinterpret_cast<void*>(index + 1);
}

/// Returns a result code; 0: `gpu` is valid.
int find_gpu(void* device, const State& state, Gpu& gpu) {
  if (!is_initialised) return 1;
  const auto number = reinterpret_cast<std::size_t>(device);
  if (number == 0 || number > state.gpus.size()) return 2;
  gpu = state.gpus[number - 1];
  return 0;
}

int value_of(void* device, long long Gpu::*field, unsigned long long* value) {
  Gpu gpu;
  if (const int result = find_gpu(device, read_state(), gpu); result != 0) return result;
  if (gpu.*field < 0) return 3;
  *value = static_cast<unsigned long long>(gpu.*field);
  return 0;
}

}  // namespace

extern "C" {

int nvmlInit_v2() {
  const int result = read_state().init;
  is_initialised = result == 0;
  return result;
}

int nvmlDeviceGetHandleByPciBusId_v2(const char* address, void** device) {
  if (!is_initialised) return 1;
  const auto gpus = read_state().gpus;
  const auto found = std::find_if(gpus.begin(), gpus.end(),
                                  [&](const Gpu& gpu) { return gpu.address == address; });
  if (found == gpus.end()) return 6;
  *device = handle_of(static_cast<std::size_t>(found - gpus.begin()));
  return 0;
}

int nvmlDeviceGetTotalEccErrors(void* device, int type, int counter, unsigned long long* count) {
  if (type != 1 || counter != 0) return 2;
  return value_of(device, &Gpu::ecc_errors, count);
}

int nvmlDeviceGetRemappedRows(void* device, unsigned* corrected, unsigned* uncorrected,
                              unsigned* is_pending, unsigned* has_failed) {
  unsigned long long pending = 0, failed = 0;
  if (const int result = value_of(device, &Gpu::is_pending, &pending); result != 0) return result;
  if (const int result = value_of(device, &Gpu::has_failed, &failed); result != 0) return result;
  *corrected = *uncorrected = 0;
  *is_pending = static_cast<unsigned>(pending);
  *has_failed = static_cast<unsigned>(failed);
  return 0;
}

int nvmlDeviceGetComputeRunningProcesses_v3(void* device, unsigned* count, Process* infos) {
  const State state = read_state();
  Gpu gpu;
  if (const int result = find_gpu(device, state, gpu); result != 0) return result;
  const auto [begin, end] = state.processes.equal_range(gpu.address);
  const auto number = static_cast<unsigned>(std::distance(begin, end));
  const bool fits = number <= *count;
  *count = number;
  if (!fits) return 7;
  std::transform(begin, end, infos, [](const auto& entry) { return entry.second; });
  return 0;
}

int nvmlDeviceGetCurrentClocksThrottleReasons(void* device, unsigned long long* reasons) {
  return value_of(device, &Gpu::reasons, reasons);
}

}  // extern "C"
