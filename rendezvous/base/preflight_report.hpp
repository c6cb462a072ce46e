// Result of ddprun-preflight for the device of one worker, passed to the agent as a file of lines:
// name, space, value. Reads and writes it. Pure; thread-safe.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace ddprun {

struct PreflightReport {
  std::string device{};   ///< "CPU", "CUDA device 2 (NVIDIA H200, 0000:3B:00.0, GPU-...)"
  std::string problem{};  ///< reason not to use the device; empty: none
  std::string remark{};   ///< warning for the operator; the run continues
  // Measured values; 0: not measured.
  double memory_bytes_per_second = 0;    ///< memory bandwidth, writing and reading
  double product_flops = 0;              ///< operations per second of a matrix product
  double exchange_bytes_per_second = 0;  ///< all-reduce with the fastest of its partners
  double all_reduce_bytes_per_second = 0;

  bool operator==(const PreflightReport&) const = default;
};

/// Maximum bytes of a text. Longer texts are truncated, since drivers may report any text.
inline constexpr std::size_t kPreflightTextMax = 1000;

/// Returns the lines of a report. Line breaks in texts become spaces.
std::string to_lines(const PreflightReport& report);

/// Returns the report, or nullopt if the lines are not a complete report. Ignores unknown names.
std::optional<PreflightReport> preflight_report_from(std::string_view lines);

}  // namespace ddprun
