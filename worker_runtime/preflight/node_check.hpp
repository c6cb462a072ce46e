// Health check of a node before its workers start. Each worker checks its own device first, then
// the connections between devices. All ranks get the same result.
#pragma once

#include "rendezvous/base/preflight_limits.hpp"
#include "rendezvous/base/preflight_report.hpp"
#include "worker_runtime/preflight/exam.hpp"
#include <ddprun/process_group.hpp>

#include <functional>

namespace ddprun::preflight {

struct NodeCheckSettings {
  Deadline::Duration exam_limit = kPreflightExamLimit;
  Deadline::Duration exchange_limit = kPreflightExchangeLimit;
};

struct NodeCheck {
  Examine examine;
  /// Creates the group in which the devices exchange data; called on all ranks once their devices
  /// are healthy.
  std::function<ProcessGroup(const Exam& exam)> connect;
  NodeCheckSettings settings{};
};

struct NodeResult {
  PreflightReport report;
  bool is_hung = false;  ///< see LimitedExam::is_hung
};

/// `host` connects the workers of the node on the CPU. To be called on every rank. Throws failures
/// of `host`.
NodeResult check_node(ProcessGroup host, const NodeCheck& check);

}  // namespace ddprun::preflight
