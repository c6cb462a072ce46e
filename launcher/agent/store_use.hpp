// Detects workers that wait for a store at an address where none is. PyTorch reads from the
// environment that an agent hosts the store (TORCHELASTIC_USE_AGENT_STORE), also for an address
// that a program chooses itself: then all ranks try to connect there for half an hour, without a
// message. Time alone is no evidence: programs may load or compile for any time. Runs on the
// agent's one thread.
#pragma once

#include "launcher/plan/launch_plan.hpp"
#include "launcher/process/background_search.hpp"
#include "launcher/process/limit_timer.hpp"
#include "launcher/report/event.hpp"
#include "rendezvous/store/store_server.hpp"

#include <boost/asio/any_io_executor.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <sys/types.h>
#include <vector>

namespace ddprun {

struct StoreUseLimits {
  /// From the start of an attempt to the first search for waiting workers. While none is found, the
  /// time to the next search doubles; once one is found, the second search follows after this time.
  std::chrono::milliseconds until_search{10'000};
};

/// True if the workers can use the agent's store only: on one node, unless rank 0 hosts it.
bool expects_store_use(const LaunchPlan& plan);

/// True if a worker failed because it could not reach a store.
bool has_missed_store(const std::vector<WorkerExited>& exits);

/// For one run of one node.
class StoreUseWatch {
 public:
  /// Returns the processes of the run that sleep in PyTorch. Runs on a thread of its own, since it
  /// may block; it may outlast the watch and owns all that it uses.
  using Search = std::function<std::vector<pid_t>()>;

  /// `store` and `events` outlive this object.
  StoreUseWatch(const boost::asio::any_io_executor& executor, const LaunchPlan& plan,
                const StoreServer& store, EventSink& events, Search find_sleepers,
                StoreUseLimits limits = {});

  /// To be called before the workers are started. Warns once in a run if two searches in a row
  /// find as many processes as there are workers that sleep in PyTorch, and none has connected to
  /// the store.
  void start_attempt();

  /// Returns the advice to be added to the reason for the end of the run; empty: none.
  std::string end_attempt(const std::vector<WorkerExited>& exits);

  /// True while a search is under way.
  bool is_searching() const { return search_ != nullptr; }

 private:
  bool has_connection() const;
  void search_in(std::chrono::milliseconds time);
  void search();
  void judge(std::vector<pid_t> found);

  const boost::asio::any_io_executor executor_;
  const bool is_expected_;
  const StoreServer& store_;
  EventSink& events_;
  const Search find_sleepers_;
  const StoreUseLimits limits_;
  const std::size_t workers_;
  LimitTimer timer_;
  std::unique_ptr<BackgroundSearch> search_;  ///< null: none is under way
  std::chrono::milliseconds pause_{0};        ///< before the next search
  std::vector<pid_t> suspects_;               ///< found by the last search
  std::uint64_t connections_before_ = 0;      ///< to the store, before the attempt
  bool has_warned_ = false;
};

}  // namespace ddprun
