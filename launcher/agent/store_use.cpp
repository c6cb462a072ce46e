#include "launcher/agent/store_use.hpp"

#include "launcher/agent/emit.hpp"
#include "launcher/plan/resolve_program.hpp"
#include "rendezvous/base/endpoint.hpp"

#include <algorithm>
#include <string_view>

namespace ddprun {

namespace {

/// PyTorch's words for it, in its messages and in its tracebacks.
bool speaks_of_a_group(const std::string& text) {
  constexpr std::string_view kWords[] = {"init_process_group", "TCPStore", "rendezvous"};
  return std::any_of(std::begin(kWords), std::end(kWords),
                     [&](std::string_view word) { return text.find(word) != std::string::npos; });
}

bool failed_at_forming_a_group(const WorkerExited& exit) {
  const auto& lines = exit.last_lines;
  return exit.failed() &&
         (speaks_of_a_group(exit.error_message) || speaks_of_a_group(exit.error_traceback) ||
          std::any_of(lines.begin(), lines.end(), speaks_of_a_group));
}

}  // namespace

bool expects_store_use(const LaunchPlan& plan) {
  // Workers of several nodes have no other choice of store.
  return !plan.nodes && !plan.worker_store_port && plan.workers.size() > 1 &&
         is_python(plan.workers.front().arguments);
}

bool may_have_met_elsewhere(const UnusedStoreEnd& end, const StoreUseLimits& limits) {
  if (end.was_interrupted) return end.lasted >= limits.until_interruption_counts;
  return std::any_of(end.exits.begin(), end.exits.end(), failed_at_forming_a_group);
}

StoreUseWatch::StoreUseWatch(const boost::asio::any_io_executor& executor, const LaunchPlan& plan,
                             const StoreServer& store, EventSink& events, StoreUseLimits limits)
    : is_expected_(expects_store_use(plan)),
      store_(store),
      events_(events),
      limits_(limits),
      timer_(executor) {}

void StoreUseWatch::start_attempt() {
  start_ = LimitTimer::Clock::now();
  connections_before_ = store_.stats().accepted;
  if (!is_expected_ || has_warned_) return;
  timer_.start(start_ + limits_.until_warning, [this] {
    if (has_anybody_come()) return;
    has_warned_ = true;
    emit(events_, Warning{advice()});
  });
}

std::string StoreUseWatch::end_attempt(const std::vector<WorkerExited>& exits,
                                       bool was_interrupted) {
  timer_.cancel();
  if (!is_expected_ || has_warned_ || has_anybody_come()) return "";
  const auto lasted = LimitTimer::Clock::now() - start_;
  const UnusedStoreEnd end{.was_interrupted = was_interrupted,
                           .lasted = std::chrono::duration_cast<std::chrono::milliseconds>(lasted),
                           .exits = exits};
  return may_have_met_elsewhere(end, limits_) ? "; " + advice() : "";
}

void StoreUseWatch::put_off_limits(std::chrono::steady_clock::duration by) {
  timer_.put_off(by);
}

bool StoreUseWatch::has_anybody_come() const {
  return store_.stats().accepted > connections_before_;
}

std::string StoreUseWatch::advice() const {
  return "no worker has connected to the store at " + to_string(store_.endpoint()) +
         "; programs that meet at an address of their own (init_method='tcp://...') need "
         "--agent_store=off";
}

}  // namespace ddprun
