#include "launcher/agent/hang_stacks.hpp"

#include "launcher/agent/emit.hpp"
#include "launcher/report/grouped_stacks.hpp"
#include "rendezvous/base/run_clock.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace ddprun {

HangStacks::HangStacks(const boost::asio::any_io_executor& executor, EventSink& events,
                       std::chrono::milliseconds limit)
    : events_(events), limit_(limit), timer_(executor) {}

void HangStacks::begin_round(int node_count) {
  report_all();
  node_count_ = static_cast<std::size_t>(node_count);
}

void HangStacks::add(const std::string& node, std::vector<StacksTaken> stacks) {
  if (stacks_.empty()) timer_.start(RunClock::now() + limit_, [this] { report_all(); });
  if (!stacks.empty() || !stacks_.contains(node)) stacks_[node] = std::move(stacks);
  if (stacks_.size() >= node_count_) report_all();
}

void HangStacks::report_all() {
  timer_.cancel();
  std::vector<StacksTaken> all;
  for (auto& [node, stacks] : std::exchange(stacks_, {}))
    std::move(stacks.begin(), stacks.end(), std::back_inserter(all));
  for (const auto& taken : grouped_stacks(std::move(all))) emit(events_, taken);
}

}  // namespace ddprun
