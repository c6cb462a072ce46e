// The whole look at a node before its workers start, as one of its workers takes part in it: its
// own device first, then the connections between them. All ranks come to the same judgement.
#pragma once

#include "rendezvous/base/preflight_report.hpp"
#include "worker_runtime/preflight/exam.hpp"
#include <ddprun/process_group.hpp>

#include <functional>

namespace ddprun::preflight {

struct NodeCheckSettings {
  /// For a device to answer. CUDA takes tenths of a second to be at home on one, and many seconds
  /// where a driver wakes all of a node's devices up at once.
  Deadline::Duration exam_limit = std::chrono::seconds(60);
  /// For one all-reduce, and for the ranks to connect for it.
  Deadline::Duration exchange_limit = std::chrono::seconds(20);
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
