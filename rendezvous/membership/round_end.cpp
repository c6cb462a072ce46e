#include "rendezvous/membership/round_end.hpp"

#include <algorithm>

namespace ddprun::membership {

std::string reason_of(const WorkersEnded& ended, const std::string& node) {
  if (!ended.not_started.empty()) return ended.not_started;
  return ended.failures.empty() ? node + " has stopped its workers"
                                : ended.failures.front().description;
}

void RoundEnd::note(NodeId node, const WorkersFailing& failing, Time now) {
  failures_.note(node, failing.reason, now);
  if (!failing.were_asked) failed_unasked_.insert(node);
}

void RoundEnd::note(NodeId node, const WorkersEnded& ended, Time now) {
  failures_.add_early_exits(node, ended.early_exits);
  if (ended.have_succeeded) {
    if (!ended.were_asked) ++succeeded_unasked_;
    return;
  }
  if (!ended.not_started.empty()) unable_.push_back({node, ended.not_started});
  failures_.add_flights(ended.flights);
  if (ended.no_restart) no_restart_ = ended.no_restart;
  const bool has_failed = !ended.failures.empty() || !ended.not_started.empty();
  if (has_failed) failures_.add(node, ended.failures, now);
  // Failures of workers that were asked to stop, and of their peers, use no restart.
  const bool is_for_newcomer = change_ && change_->kind == MembershipChange::Kind::comes;
  const bool is_own = std::any_of(ended.failures.begin(), ended.failures.end(),
                                  [](const Failure& failure) { return !failure.is_victim; });
  if (is_for_newcomer && is_own && failed_unasked_.contains(node)) change_.reset();
}

/// Peers of a lost node fail before its loss is detected. A join causes no failures.
void RoundEnd::note(const MembershipChange& change, std::chrono::milliseconds reach) {
  const auto& failed = failures_.first_time();
  const bool explains = !failed || change.when - *failed <= reach;
  const bool is_worse = !change_ || change_->kind == MembershipChange::Kind::comes;
  if (change.kind != MembershipChange::Kind::comes) failures_.ignore_early_exits();
  if (explains && is_worse) change_ = change;
}

std::string RoundEnd::reason_of_change() const {
  const bool is_surprise = change_->kind == MembershipChange::Kind::comes && failures_.first_time();
  return change_->reason + (is_surprise ? "; meanwhile " + failures_.cause() : std::string());
}

NextStep RoundEnd::next_step(const RestartHistory& history, const RestartSettings& settings,
                             Time now) const {
  if (!unable_.empty()) {
    return {.end = RunResult::not_started, .reason = unable_.front().reason};
  }
  // The next round's workers would write the same files as those left.
  if (no_restart_) {
    return {.end = RunResult::failed, .reason = failures_.cause() + "; " + *no_restart_};
  }
  if (change_) return {.reason = reason_of_change()};
  auto decision = spend_restart(history, failures_.cause(), failures_.ran(), now, settings);
  NextStep next_step{.reason = decision.reason};
  next_step.spent = std::move(decision);
  if (!next_step.spent->may_restart) next_step.end = RunResult::failed;
  return next_step;
}

}  // namespace ddprun::membership
