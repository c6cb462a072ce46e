// Collects the stacks of all nodes of a round during a hang, so that the node with rank 0 reports
// ranks with the same stacks together. Runs on the agent's thread.
#pragma once

#include "launcher/process/limit_timer.hpp"
#include "launcher/report/event.hpp"

#include <boost/asio/any_io_executor.hpp>

#include <chrono>
#include <cstddef>
#include <map>
#include <string>
#include <vector>

namespace ddprun {

class HangStacks {
 public:
  /// Maximum time from the stacks of the first node to the report.
  static constexpr std::chrono::milliseconds kLimit = std::chrono::seconds(5);

  /// `events` outlives this object.
  HangStacks(const boost::asio::any_io_executor& executor, EventSink& events,
             std::chrono::milliseconds limit = kLimit);

  /// Reports the stacks of earlier rounds and sets the number of nodes.
  void begin_round(int node_count);

  /// Adds the stacks of a node, in place of earlier ones that have not been reported; if it has
  /// taken none, earlier ones are kept. `node` is empty for this node. Reports all when each node
  /// has been added, or after the limit.
  void add(const std::string& node, std::vector<StacksTaken> stacks);

  /// Reports the stacks that were added, if any.
  void report_all();

 private:
  EventSink& events_;
  std::chrono::milliseconds limit_;
  std::size_t node_count_ = 1;
  std::map<std::string, std::vector<StacksTaken>> stacks_;  ///< by node
  LimitTimer timer_;
};

}  // namespace ddprun
