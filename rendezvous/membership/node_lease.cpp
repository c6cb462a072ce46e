#include "rendezvous/membership/node_lease.hpp"

#include <algorithm>

namespace ddprun::membership {

namespace {

/// Fraction of the lease by which the node ends it early, to kill its workers.
constexpr int kMarginOfLease = 6;

}  // namespace

void NodeLease::request(Time now, Time term_end) {
  term_end_ = term_end;
  unanswered_.assign(1, {0, now});
}

void NodeLease::grant(std::chrono::milliseconds length, Time now) {
  granted_ = length;
  renew(unanswered_.front().second);
  unanswered_.clear();
  plan_heartbeat(now);
}

std::uint64_t NodeLease::send_heartbeat(Time now) {
  unanswered_.emplace_back(++last_heartbeat_, now);
  plan_heartbeat(now);
  return last_heartbeat_;
}

void NodeLease::on_answer(std::uint64_t number) {
  while (!unanswered_.empty() && unanswered_.front().first <= number) {
    renew(unanswered_.front().second);
    unanswered_.pop_front();
  }
}

bool NodeLease::renew_term(Time end) {
  if (term_end_ == Time::max() || end <= term_end_) return false;
  term_end_ = end;
  return true;
}

std::chrono::milliseconds NodeLease::length() const {
  return granted_ - granted_ / kMarginOfLease;
}

void NodeLease::renew(Time sent) {
  granted_end_ = granted_.count() == 0 ? Time::max() : sent + length();
}

void NodeLease::plan_heartbeat(Time now) {
  next_heartbeat_ = granted_.count() == 0 ? Time::max() : now + granted_ / kHeartbeatsPerLease;
}

}  // namespace ddprun::membership
