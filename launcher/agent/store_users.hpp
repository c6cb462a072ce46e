// Decides which users of this machine the agent's store serves. Single-threaded.
#pragma once

#include "launcher/plan/launch_plan.hpp"
#include "launcher/process/containment.hpp"
#include "rendezvous/store/peer_user.hpp"

#include <chrono>
#include <functional>
#include <sys/types.h>
#include <vector>

namespace ddprun {

/// Users of the run's processes. A search reads all processes of the run. Searches may take at most
/// a twentieth of the time, plus a burst of 50 ms, so that connections of unrelated processes
/// cannot keep the agent busy.
class WorkerUsers {
 public:
  using Search = std::function<std::vector<uid_t>()>;
  using Clock = std::chrono::steady_clock;
  using Now = std::function<Clock::time_point()>;

  explicit WorkerUsers(Search search, Now now = &Clock::now);

  /// Returns true if the last search found the user. Otherwise searches again if the time budget
  /// permits.
  bool has(uid_t user);

 private:
  Search search_;
  Now now_;
  std::vector<uid_t> found_;
  Clock::time_point budget_end_{};  ///< time until which the budget is used up
};

/// Returns a check that admits root, the agent's user and the users of the run's processes; empty
/// if the plan does not check users. `containment` outlives the result.
UserCheck store_users(const LaunchPlan& plan, const Containment& containment);

}  // namespace ddprun
