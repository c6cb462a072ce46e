// Notices workers that wait for a store where none is. PyTorch reads from the environment that an
// agent hosts the store (TORCHELASTIC_USE_AGENT_STORE), also for an address that a program chooses
// itself: all of its ranks then try to connect there for half an hour, without a message. Nothing
// is concluded from time alone: programs may load or compile for as long as they like. Runs on the
// agent's one thread.
#pragma once

#include "launcher/plan/launch_plan.hpp"
#include "launcher/process/limit_timer.hpp"
#include "launcher/report/event.hpp"
#include "rendezvous/store/store_server.hpp"

#include <boost/asio/any_io_executor.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <sys/types.h>
#include <vector>

namespace ddprun {

struct StoreUseLimits {
  /// From the start of an attempt to the first look at its processes. Without a sign of waiting,
  /// the time to the next look doubles; with one, as long passes again to the second look.
  std::chrono::milliseconds until_look{10'000};
};

/// True if the workers can use the agent's store only: on one node, unless rank 0 hosts it.
bool expects_store_use(const LaunchPlan& plan);

/// True if a worker has failed because no store was at the address that it was given.
bool has_missed_store(const std::vector<WorkerExited>& exits);

/// The processes of the run that sleep in PyTorch now (sleeping_in_pytorch()).
using Sleepers = std::function<std::vector<pid_t>()>;

/// For one run of one node. Everything outlives it.
class StoreUseWatch {
 public:
  StoreUseWatch(const boost::asio::any_io_executor& executor, const LaunchPlan& plan,
                const StoreServer& store, EventSink& events, Sleepers sleepers,
                StoreUseLimits limits = {});

  /// The workers are about to be started. Warns once in a run if as many processes as there are
  /// workers sleep in PyTorch at two looks, and none has connected to the store.
  void start_attempt();

  /// What the reason for the end of the run should have added to it; empty: nothing.
  std::string end_attempt(const std::vector<WorkerExited>& exits);

  /// The run was suspended for as long.
  void put_off_limits(std::chrono::steady_clock::duration by);

 private:
  bool has_anybody_come() const;
  void look_in(std::chrono::milliseconds time);
  void look();

  const bool is_expected_;
  const StoreServer& store_;
  EventSink& events_;
  const Sleepers sleepers_;
  const StoreUseLimits limits_;
  const std::size_t workers_;
  LimitTimer timer_;
  std::chrono::milliseconds pause_{0};  ///< before the next look
  std::vector<pid_t> suspects_;         ///< that slept in PyTorch at the last look
  std::uint64_t connections_before_ = 0;
  bool has_warned_ = false;
};

}  // namespace ddprun
