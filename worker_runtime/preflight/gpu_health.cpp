#include "worker_runtime/preflight/gpu_health.hpp"

#include <utility>
#include <vector>

namespace ddprun::preflight {

namespace {

constexpr const char* kReset = "reset the GPU (nvidia-smi --gpu-reset) or restart the node";

void append(std::string& text, const std::string& more) {
  text += (text.empty() ? "" : "; ") + more;
}

std::string clock_reasons(std::uint64_t reasons) {
  constexpr std::pair<std::uint64_t, const char*> kReasons[] = {
      {kHardwareThermal, "temperature (hardware)"},
      {kSoftwareThermal, "temperature (software)"},
      {kPowerBrake, "power brake"},
  };
  std::string text;
  for (const auto& [bit, name] : kReasons) {
    if ((reasons & bit) != 0) text += (text.empty() ? "" : ", ") + std::string(name);
  }
  const bool is_unknown =
      (reasons & kHardwareSlowdown) != 0 && (reasons & (kHardwareThermal | kPowerBrake)) == 0;
  if (is_unknown) text += (text.empty() ? "" : ", ") + std::string("hardware slowdown");
  return text;
}

}  // namespace

GpuHealth judge_health(const GpuState& state) {
  GpuHealth health;
  if (state.has_remap_failed) {
    append(health.problem, "a faulty row of its memory could not be remapped; replace the GPU");
  } else if (state.is_remap_pending) {
    append(health.problem,
           std::string("the remapping of a faulty row of its memory is pending; ") + kReset);
  }
  if (const auto errors = state.uncorrected_errors; errors > 0) {
    const bool is_one = errors == 1;
    append(health.problem, "its memory has had " + std::to_string(errors) + " uncorrectable ECC " +
                               (is_one ? "error" : "errors") + " since its last reset" +
                               (health.problem.empty() ? std::string("; ") + kReset : ""));
  }
  const auto reasons = clock_reasons(state.clock_reasons);
  if (!reasons.empty()) health.remark = "its clocks are reduced: " + reasons;
  return health;
}

}  // namespace ddprun::preflight
