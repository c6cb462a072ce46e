#include "launcher/agent/hang_stacks.hpp"

#include "launcher/agent/emit.hpp"
#include "launcher/report/grouped_stacks.hpp"
#include "rendezvous/base/run_clock.hpp"

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
  if (nodes_.empty()) timer_.start(RunClock::now() + limit_, [this] { report_all(); });
  nodes_.insert(node);
  stacks_.insert(stacks_.end(), std::make_move_iterator(stacks.begin()),
                 std::make_move_iterator(stacks.end()));
  if (nodes_.size() >= node_count_) report_all();
}

void HangStacks::report_all() {
  timer_.cancel();
  nodes_.clear();
  for (const auto& taken : grouped_stacks(std::exchange(stacks_, {}))) emit(events_, taken);
}

}  // namespace ddprun
