// Ends what the workers of an attempt have left running: asks it, then kills it. The agent's way,
// which lets its thread go on meanwhile; the guardian has one that blocks (run_members.hpp). Runs
// on the agent's one thread.
#pragma once

#include "launcher/process/containment.hpp"
#include "launcher/process/limited_wait.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>

#include <sys/types.h>
#include <vector>

namespace ddprun {

class Sweep {
 public:
  Sweep(const boost::asio::any_io_executor& executor, const Containment& containment)
      : containment_(containment), wait_(executor) {}

  /// What WorkerGroup::sweep() says.
  boost::asio::awaitable<std::vector<pid_t>> run();

  /// Kills at once what is still being asked.
  void hurry();

  void put_off_limits(Deadline::Duration by) { wait_.put_off(by); }

 private:
  boost::asio::awaitable<void> wait_for(EndsToCome ends);

  const Containment& containment_;
  LimitedWait wait_;
  bool is_asking_ = false;
};

}  // namespace ddprun
