#include "launcher/agent/store_users.hpp"

#include "launcher/process/proc_scan.hpp"

#include <algorithm>
#include <memory>
#include <utility>

namespace ddprun {

namespace {

/// Budget that a search uses, as a multiple of its duration.
constexpr int kShareOfSearches = 20;
/// Budget that may be used in advance: processes switch to several users at nearly the same time.
constexpr auto kAdvance = std::chrono::seconds(1);

}  // namespace

WorkerUsers::WorkerUsers(Search search, Now now)
    : search_(std::move(search)), now_(std::move(now)) {}

bool WorkerUsers::has(uid_t user) {
  const auto is_found = [&] {
    return std::find(found_.begin(), found_.end(), user) != found_.end();
  };
  const auto start = now_();
  if (is_found() || start + kAdvance < budget_end_) return is_found();
  found_ = search_();
  const auto end = now_();
  budget_end_ = std::max(budget_end_, start) + kShareOfSearches * (end - start);
  return is_found();
}

UserCheck store_users(const LaunchPlan& plan, const Containment& containment) {
  if (!plan.checks_users) return {};
  const auto users = std::make_shared<WorkerUsers>([&containment] {
    std::vector<uid_t> found;
    for (const pid_t pid : containment.members()) {
      if (const auto ids = user_of(pid)) found.push_back(ids->user);
    }
    return found;
  });
  return [users](uid_t user) { return is_root_or_own_user(user) || users->has(user); };
}

}  // namespace ddprun
