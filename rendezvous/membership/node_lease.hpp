// The lease of a node: until its end the coordinator takes the node for alive. The node counts it
// from each request, which precedes the grant, and ends it early to kill its workers in time. In
// the coordinator's process, it also ends with the coordinator's term. A value.
#pragma once

#include "rendezvous/membership/settings.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <deque>
#include <utility>

namespace ddprun::membership {

class NodeLease {
 public:
  /// A Join was sent. `term_end`: end of the term of a coordinator in this process; Time::max():
  /// none.
  void request(Time now, Time term_end);

  /// The coordinator granted a lease of this length; 0: unlimited.
  void grant(std::chrono::milliseconds length, Time now);

  /// Returns the number of the heartbeat to send.
  std::uint64_t send_heartbeat(Time now);
  void on_answer(std::uint64_t number);

  /// Returns false if there is no such term: the node joined under another one.
  bool renew_term(Time end);

  /// Drops unanswered heartbeats: the connection has ended.
  void disconnect() { unanswered_.clear(); }

  Time end() const { return std::min(granted_end_, term_end_); }
  Time term_end() const { return term_end_; }
  Time next_heartbeat() const { return next_heartbeat_; }

  /// Time from a request to the end of the lease.
  std::chrono::milliseconds length() const;

 private:
  void renew(Time sent);
  void plan_heartbeat(Time now);

  std::chrono::milliseconds granted_{0};
  Time granted_end_;
  Time term_end_ = Time::max();
  Time next_heartbeat_;
  std::uint64_t last_heartbeat_ = 0;
  /// numbers and send times of unanswered heartbeats; the Join has number 0
  std::deque<std::pair<std::uint64_t, Time>> unanswered_;
};

}  // namespace ddprun::membership
