// Detects workers that wait for a store at an address without a server. The environment variable
// TORCHELASTIC_USE_AGENT_STORE makes PyTorch expect an agent's store even at an address that the
// program chooses; all ranks then try to connect for half an hour without a message. Elapsed time
// alone is no proof, because programs may load or compile for any time. Runs on the agent's
// thread.
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
  /// Time from the start of an attempt to the first search for waiting workers. Doubles while
  /// searches find none; a second search follows a find after this time.
  std::chrono::milliseconds until_search{10'000};
};

/// Returns true if workers can only use the agent's store: on a single node where rank 0 does not
/// host a store.
bool expects_store_use(const LaunchPlan& plan);

/// Returns true if a worker failed because it could not connect to a store.
bool has_missed_store(const std::vector<WorkerExited>& exits);

/// Watches one run on a single node.
class StoreUseWatch {
 public:
  /// Returns the processes of the run that sleep in PyTorch code. May block, so it runs on a
  /// separate thread; may outlive the watch, so it owns its data.
  using Search = std::function<std::vector<pid_t>()>;

  /// `store` and `events` outlive this object.
  StoreUseWatch(const boost::asio::any_io_executor& executor, const LaunchPlan& plan,
                const StoreServer& store, EventSink& events, Search find_sleepers,
                StoreUseLimits limits = {});

  /// Must be called before the workers are started. Warns once per run if two consecutive searches
  /// find as many processes sleeping in PyTorch code as there are workers, and no worker has
  /// connected to the store.
  void start_attempt();

  /// Returns advice for the reason why the run ended, or an empty text.
  std::string end_attempt(const std::vector<WorkerExited>& exits);

  /// Returns true during a search.
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
  std::unique_ptr<BackgroundSearch> search_;  ///< null unless a search is in progress
  std::chrono::milliseconds pause_{0};        ///< time before the next search
  std::vector<pid_t> suspects_;               ///< processes found by the last search
  std::uint64_t connections_before_ = 0;      ///< connections to the store before the attempt
  bool has_warned_ = false;
};

}  // namespace ddprun
