#include "launcher/ssh/team.hpp"

#include "launcher/ssh/tree.hpp"

#include <boost/asio/co_spawn.hpp>

#include <numeric>
#include <utility>

namespace ddprun::ssh {

void Team::add_relays(const std::string& ssh, const RelayTask& task,
                      const std::vector<Target>& targets) {
  std::vector<std::size_t> all(targets.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  for (const auto& branch : plan_branches(all, static_cast<std::size_t>(task.ssh.fan_out))) {
    auto part = task;
    part.targets = {targets[branch.node]};
    for (const auto below : branch.below) part.targets.push_back(targets[below]);
    children_.push_back(make_relay_child(executor_, sink_, ssh, std::move(part)));
  }
}

void Team::start(std::function<void(std::exception_ptr)> on_end) {
  on_end_ = std::move(on_end);
  running_ = children_.size();
  for (const auto& child : children_) {
    boost::asio::co_spawn(executor_, child->run(), [this](std::exception_ptr failure) {
      if (failure && !failure_) failure_ = std::move(failure);
      if (--running_ == 0) on_end_(failure_);
    });
  }
}

void Team::signal(int number) {
  for (const auto& child : children_) child->signal(number);
}

void Team::stop_calling() {
  for (const auto& child : children_) child->stop_calling();
}

void Team::hang_up() {
  for (const auto& child : children_) child->hang_up();
}

void Team::kill() {
  for (const auto& child : children_) child->kill();
}

}  // namespace ddprun::ssh
