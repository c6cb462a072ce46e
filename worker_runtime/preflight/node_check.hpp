// The whole look at a node before its workers start, as one of its workers takes part in it: its
// own device first, then the connections between them. All ranks come to the same judgement.
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
  /// Makes the group in which the devices exchange data; asked on all ranks, once their devices are
  /// in order.
  std::function<ProcessGroup(const Exam& exam)> connect;
  NodeCheckSettings settings{};
};

struct NodeResult {
  PreflightReport report;
  bool is_hung = false;  ///< as LimitedExam::is_hung
};

/// `host` connects the workers of the node through their processors. Every rank calls it. Throws
/// what that group fails with.
NodeResult check_node(ProcessGroup host, const NodeCheck& check);

}  // namespace ddprun::preflight
