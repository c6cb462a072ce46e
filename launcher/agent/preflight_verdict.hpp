// Evaluates the result of a preflight. Pure.
#pragma once

#include "launcher/report/event.hpp"
#include "rendezvous/base/preflight_report.hpp"
#include "rendezvous/base/problem.hpp"

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace ddprun {

/// Result of the preflight's processes.
struct PreflightOutcome {
  std::vector<WorkerExited> exits;
  std::vector<std::optional<PreflightReport>> reports;  ///< by local rank; nullopt: not written
  bool is_over_time = false;                            ///< processes were killed at the limit
  std::chrono::seconds limit{0};
};

/// Returns a result for each device, by local rank: the worker's report, or how the worker ended if
/// it wrote none. Omits workers that were stopped, or failed, because of another worker.
std::vector<DeviceExamined> judge_devices(const PreflightOutcome& outcome);

/// Returns the reason why no worker may be started, with the first failed devices; nullopt if all
/// devices are in order.
Problem objection_to_start(const std::vector<DeviceExamined>& devices, int workers);

/// Returns the smallest measured values, such as "2 x CPU passed (memory 5.2 GB/s, ...)".
std::string summary_of(const std::vector<DeviceExamined>& devices);

}  // namespace ddprun
