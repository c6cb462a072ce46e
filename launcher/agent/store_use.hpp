// Notices that the workers do not come to the store. PyTorch takes ddprun's word that an agent
// hosts a store (TORCHELASTIC_USE_AGENT_STORE) for every address, also for one that a program made
// up itself (init_method='tcp://...'): all ranks then wait there for a host that nobody is, without
// a word. Runs on the agent's one thread.
#pragma once

#include "launcher/plan/launch_plan.hpp"
#include "launcher/process/limit_timer.hpp"
#include "launcher/report/event.hpp"
#include "rendezvous/store/store_server.hpp"

#include <boost/asio/any_io_executor.hpp>

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace ddprun {

struct StoreUseLimits {
  /// Programs of PyTorch take seconds to their first group, large ones more.
  std::chrono::milliseconds until_warning{30'000};
  /// Who is interrupted before has not waited for anything yet.
  std::chrono::milliseconds until_interruption_counts{5'000};
};

/// Whether these workers are expected at ddprun's store: several that Python runs, none of whom
/// hosts a store.
bool expects_store_use(const LaunchPlan& plan);

/// How an attempt ended during which no worker had come to the store.
struct UnusedStoreEnd {
  bool was_interrupted = false;
  std::chrono::milliseconds lasted{0};
  std::vector<WorkerExited> exits;
};

/// Whether that may be why: workers that fail before they form a group are no sign of it, unless
/// they speak of forming one.
bool may_have_met_elsewhere(const UnusedStoreEnd& end, const StoreUseLimits& limits);

/// For one run of one node. Everything outlives it.
class StoreUseWatch {
 public:
  StoreUseWatch(const boost::asio::any_io_executor& executor, const LaunchPlan& plan,
                const StoreServer& store, EventSink& events, StoreUseLimits limits = {});

  /// The workers are about to be started. Warns once in a run if none of them comes in time.
  void start_attempt();

  /// What the reason for the end of the run should have added to it; empty: nothing.
  std::string end_attempt(const std::vector<WorkerExited>& exits, bool was_interrupted);

  /// The run was suspended for as long.
  void put_off_limits(std::chrono::steady_clock::duration by);

 private:
  bool has_anybody_come() const;
  std::string advice() const;

  const bool is_expected_;
  const StoreServer& store_;
  EventSink& events_;
  const StoreUseLimits limits_;
  LimitTimer timer_;
  LimitTimer::Clock::time_point start_;  ///< of the attempt
  std::uint64_t connections_before_ = 0;
  bool has_warned_ = false;
};

}  // namespace ddprun
