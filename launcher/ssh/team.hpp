// All children of one machine, started together. Runs on one thread.
#pragma once

#include "launcher/ssh/child.hpp"
#include "launcher/ssh/task.hpp"

#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace ddprun::ssh {

class Team {
 public:
  Team(boost::asio::any_io_executor executor, ReportSink& sink)
      : executor_(std::move(executor)), sink_(sink) {}

  /// The agent of this machine's node.
  void add_agent(const Target& target, const RelayTask& task) {
    children_.push_back(make_agent_child(executor_, sink_, target, task));
  }

  /// ssh for `targets`, as many at once as the task's fan_out says.
  void add_relays(const std::string& ssh, const RelayTask& task,
                  const std::vector<Target>& targets);

  /// `on_end` is called once, when all children have ended, with what none of them should have
  /// thrown.
  void start(std::function<void(std::exception_ptr)> on_end);

  void signal(int number);
  void stop_calling();
  void hang_up();
  void kill();

 private:
  boost::asio::any_io_executor executor_;
  ReportSink& sink_;
  std::vector<std::unique_ptr<Child>> children_;
  std::function<void(std::exception_ptr)> on_end_;
  std::size_t running_ = 0;
  std::exception_ptr failure_;
};

}  // namespace ddprun::ssh
