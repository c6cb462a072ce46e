// Which users of this machine the agent's store serves. One thread.
#pragma once

#include "launcher/plan/launch_plan.hpp"
#include "launcher/process/containment.hpp"
#include "rendezvous/store/peer_user.hpp"

#include <chrono>
#include <functional>
#include <sys/types.h>
#include <vector>

namespace ddprun {

/// The users that processes of the run have become. A search looks at all processes of the run, so
/// searches take at most a twentieth of the time, and 50 ms more at once: connections of strangers
/// cannot occupy the agent.
class WorkerUsers {
 public:
  using Search = std::function<std::vector<uid_t>()>;
  using Clock = std::chrono::steady_clock;
  using Now = std::function<Clock::time_point()>;

  explicit WorkerUsers(Search search, Now now = &Clock::now);

  /// True if the last search has found the user. Searches again if it has not and the
  /// searches have not used up their time.
  bool has(uid_t user);

 private:
  Search search_;
  Now now_;
  std::vector<uid_t> found_;
  Clock::time_point budget_end_{};  ///< until when searches have used their share of the time
};

/// Admits root, the agent's user and the users of the run's processes; empty if the plan does not
/// check users. `containment` outlives the result.
UserCheck store_users(const LaunchPlan& plan, const Containment& containment);

}  // namespace ddprun
