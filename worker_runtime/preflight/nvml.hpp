// NVIDIA's management library (NVML), which is part of the driver: state of GPUs. Its functions
// block, without limit if the driver hangs.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace ddprun::preflight {

/// Name of the library for the loader.
inline constexpr const char* kNvmlFile = "libnvidia-ml.so.1";

/// Active reasons for reduced clocks, as a set of bits.
enum ClockReason : std::uint64_t {
  kHardwareSlowdown = 0x08,  ///< any of the reasons that the hardware detects
  kSoftwareThermal = 0x20,
  kHardwareThermal = 0x40,
  kPowerBrake = 0x80,  ///< request of the power supply
};

/// A process that uses CUDA on a GPU.
struct GpuProcess {
  int pid = 0;
  std::optional<std::uint64_t> memory_bytes{};  ///< memory of the GPU; nullopt: unknown

  bool operator==(const GpuProcess&) const = default;
};

/// State of a GPU. GPUs without ECC memory, virtual GPUs and older drivers report a part of it.
struct GpuState {
  std::uint64_t uncorrected_errors = 0;  ///< ECC errors since the last reset
  bool is_remap_pending = false;         ///< of a row of its memory; done by a reset
  bool has_remap_failed = false;
  std::uint64_t clock_reasons = 0;  ///< bits of ClockReason and others
  /// Processes outside of MIG instances; empty if the driver does not list them.
  std::vector<GpuProcess> processes{};

  bool operator==(const GpuState&) const = default;
};

class Nvml {
 public:
  /// Loads and initialises the library, in about 10 ms if the driver is in use. Returns nullopt if
  /// it is missing, too old or finds no driver.
  static std::optional<Nvml> open(const char* file = kNvmlFile);

  /// Returns the state of the GPU at a PCI address; nullopt if NVML does not know this GPU.
  std::optional<GpuState> state_of(const std::string& address) const;

 private:
  struct Functions;

  explicit Nvml(std::shared_ptr<const Functions> functions) : functions_(std::move(functions)) {}

  std::shared_ptr<const Functions> functions_;
};

}  // namespace ddprun::preflight
