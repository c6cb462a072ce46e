// What the end of a preflight says about the node. Pure.
#pragma once

#include "launcher/report/event.hpp"
#include "rendezvous/base/preflight_report.hpp"

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace ddprun {

/// What is left when its workers have ended.
struct PreflightOutcome {
  std::vector<WorkerExited> exits;
  std::vector<std::optional<PreflightReport>> reports;  ///< by local rank; nothing: it wrote none
  bool is_over_time = false;                            ///< they were killed for it
  std::chrono::seconds limit{0};
};

/// One for each worker whose device has been judged, by local rank: what it has reported, or how it
/// ended without. Of those that were stopped because another one failed, or failed because of it,
/// there is nothing to say.
std::vector<DeviceExamined> judge_devices(const PreflightOutcome& outcome);

/// Why no worker may be started, with the first of the devices that are to blame; empty: all is
/// well.
std::string objection_to_start(const std::vector<DeviceExamined>& devices, int workers);

/// What was measured, at its least: "2 x CPU in order (memory 5.2 GB/s, ...)".
std::string summary_of(const std::vector<DeviceExamined>& devices);

}  // namespace ddprun
