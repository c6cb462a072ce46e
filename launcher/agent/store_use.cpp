#include "launcher/agent/store_use.hpp"

#include "launcher/agent/emit.hpp"
#include "rendezvous/base/endpoint.hpp"

#include <algorithm>
#include <exception>
#include <iterator>
#include <string_view>
#include <utility>

namespace ddprun {

namespace {

/// Maximum interval between two searches.
constexpr std::chrono::milliseconds kLongestPause = std::chrono::minutes(10);

/// Part of PyTorch's error, in every version, for a store that cannot be reached.
constexpr std::string_view kMissedStore = "The client socket has ";

constexpr const char* kAdvice =
    "a program that sets MASTER_PORT or the address in init_method itself needs --agent_store=off";

bool failed_to_connect(const WorkerExited& exit) {
  const auto has_miss = [](const std::string& text) {
    return text.find(kMissedStore) != std::string::npos;
  };
  return exit.failed() && (has_miss(exit.error_message) || has_miss(exit.error_traceback) ||
                           std::any_of(exit.last_lines.begin(), exit.last_lines.end(), has_miss));
}

}  // namespace

bool expects_store_use(const LaunchPlan& plan) {
  // Workers of several nodes cannot choose another store.
  return !plan.nodes && !plan.worker_store_port;
}

bool has_missed_store(const std::vector<WorkerExited>& exits) {
  return std::any_of(exits.begin(), exits.end(), failed_to_connect);
}

StoreUseWatch::StoreUseWatch(const boost::asio::any_io_executor& executor, const LaunchPlan& plan,
                             const StoreServer& store, EventSink& events, Search find_sleepers,
                             StoreUseLimits limits)
    : executor_(executor),
      is_expected_(expects_store_use(plan)),
      store_(store),
      events_(events),
      find_sleepers_(std::move(find_sleepers)),
      limits_(limits),
      workers_(plan.workers.size()),
      timer_(executor) {}

void StoreUseWatch::start_attempt() {
  connections_before_ = store_.stats().accepted;
  suspects_.clear();
  pause_ = limits_.until_search;
  if (is_expected_ && !has_warned_) search_in(pause_);
}

void StoreUseWatch::search_in(std::chrono::milliseconds time) {
  timer_.start(RunClock::now() + time, [this] { search(); });
}

void StoreUseWatch::search() {
  if (has_connection()) return;
  try {
    const auto found = std::make_shared<std::vector<pid_t>>();
    search_ = std::make_unique<BackgroundSearch>(
        executor_, [found, find = find_sleepers_] { *found = find(); },
        [this, found] {
          search_.reset();
          judge(std::move(*found));
        });
  } catch (const std::exception&) {
    judge({});  // the next search may find descriptors and memory again
  }
}

void StoreUseWatch::judge(std::vector<pid_t> found) {
  if (has_connection()) return;
  std::sort(found.begin(), found.end());
  std::vector<pid_t> both;
  std::set_intersection(found.begin(), found.end(), suspects_.begin(), suspects_.end(),
                        std::back_inserter(both));
  if (both.size() >= workers_) {
    has_warned_ = true;
    const auto others = both.size() - 1;
    return emit(events_,
                Warning{"no worker has connected to the store at " + to_string(store_.endpoint()) +
                        ", and process " + std::to_string(both.front()) +
                        (others > 0 ? " and " + std::to_string(others) + " more wait"
                                    : std::string(" waits")) +
                        " for a store elsewhere; " + kAdvice});
  }
  suspects_ = std::move(found);
  if (suspects_.size() >= workers_) return search_in(limits_.until_search);
  search_in(pause_);
  pause_ = std::min(2 * pause_, kLongestPause);
}

std::string StoreUseWatch::end_attempt(const std::vector<WorkerExited>& exits) {
  timer_.cancel();
  search_.reset();
  if (!is_expected_ || has_warned_ || has_connection() || !has_missed_store(exits)) return "";
  return std::string("; ") + kAdvice;
}

bool StoreUseWatch::has_connection() const {
  return store_.stats().accepted > connections_before_;
}

}  // namespace ddprun
