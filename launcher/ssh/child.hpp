// The processes that a machine starts for a run over ssh: its own agent, and ssh for each machine
// below it. Both turn what happens into reports of nodes. Run on one thread.
#pragma once

#include "launcher/ssh/node_report.hpp"
#include "launcher/ssh/task.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>

#include <memory>
#include <string>
#include <vector>

namespace ddprun::ssh {

/// Where reports go: to the console, or up to the machine that has started this one.
class ReportSink {
 public:
  virtual ~ReportSink() = default;
  virtual void take(NodeReport report) = 0;

  /// Returns when more output may be taken. Until then it is left where it is.
  virtual boost::asio::awaitable<void> room() = 0;
};

class Child {
 public:
  virtual ~Child() = default;

  /// From its start to its end; each of its nodes then has been reported as ended, not started or
  /// lost. Throws nothing that a child can cause.
  virtual boost::asio::awaitable<void> run() = 0;

  virtual void signal(int number) = 0;

  /// The run is over: a machine that has not answered need not do so any more.
  virtual void stop_calling() = 0;

  /// Whoever started all of this has gone: the nodes have to leave.
  virtual void hang_up() = 0;

  virtual void kill() = 0;
};

/// The agent of this machine's node, `task` on its standard input. It is killed with this process.
std::unique_ptr<Child> make_agent_child(boost::asio::any_io_executor executor, ReportSink& sink,
                                        const Target& target, const RelayTask& task);

/// ssh to the first of `task`'s targets, where ddprun then is the agent of that node and starts the
/// others.
std::unique_ptr<Child> make_relay_child(boost::asio::any_io_executor executor, ReportSink& sink,
                                        const std::string& ssh, RelayTask task);

}  // namespace ddprun::ssh
