// An elected coordinator of a simulated run. It renews its term in a simulated etcd while that is
// reachable, and is part of a node: faults of the node affect it, too.
#pragma once

#include "tests/support/simulated_faults.hpp"

#include <set>

namespace ddprun::test {

class SimulatedElections : public SimulatedFaults {
 public:
  using SimulatedFaults::SimulatedFaults;

 protected:
  /// As counted by etcd; the holder ends it a sixth earlier.
  static constexpr milliseconds kTerm{3000};

  Node& host() { return nodes_[static_cast<std::size_t>(host_)]; }

  void begin_term() {
    has_lost_etcd_ = false;
    renew_term(++term_);
  }

  /// Concurrent events: the renewal, the end of the term at the holder, and its end in etcd.
  void renew_term(int term) {
    if (term != term_ || !coordination_ || has_lost_etcd_ || is_coordinator_paused_) return;
    const auto renewal = ++renewal_;
    term_end_ = host().clock.shows(now_) + kTerm - kTerm / 6;
    if (host().part) to_node(host_, host().agent, TermRenewed{term_end_});
    after(kTerm / 6, [this, term] { renew_term(term); });
    at(host().clock.when_it_shows(term_end_), [this, renewal] {
      if (renewal == renewal_ && !is_coordinator_paused_) lose_term();
    });
    after(kTerm + milliseconds(any(0, 500)), [this, renewal] {
      if (renewal == renewal_) elect();
    });
  }

  bool is_in_term() { return host().clock.shows(now_) < term_end_; }

  void lose_term() {
    if (coordination_) drop_coordinator("the host loses its term");
  }

  Time term_end_for(const Node& node) const override {
    const bool is_host = is_elected_ && &node == &nodes_[static_cast<std::size_t>(host_)];
    return is_host ? term_end_ : Time::max();
  }

  /// The response is delayed, and waited for while etcd is lost.
  void keep(const KeepRecord& kept) override {
    if (!is_elected_) return queue_.kept();
    after(milliseconds(1) + delay(), [this, kept, incarnation = incarnation_] {
      if (incarnation != incarnation_ || !coordination_) return;
      if (has_lost_etcd_) return keep(kept);
      record_ = kept.record;
      record_->host = {.name = host().name, .instance = instance_of(host())};
      if (is_coordinator_paused_) return unread_.push_back(incarnation);
      on_record_kept();
    });
  }

  void on_record_kept() {
    queue_.kept();
    perform();
  }

  /// Faults of the host: its agent is killed or stopped, it loses etcd, or it is asked to leave.
  void disturb_host() {
    if (run_outcome_) return;
    const int host_before = host_;
    // Faults of a network affect several nodes.
    const int other = any(0, static_cast<int>(nodes_.size()) - 1);
    if (other != host_before && chance(50)) cut(other);
    switch (any(0, 3)) {
      case 0:
        drop_coordinator("the host is lost");
        return kill_agent(host_before);
      case 1:
        note("the host loses etcd");
        has_lost_etcd_ = true;
        if (chance(50)) after(any(0, 4000), [this, host_before] { pause_host(host_before); });
        return;
      case 2:
        return pause_host(host_before);
      default:
        note("the host is asked to leave");
        to_coordinator(HostLeaves{"the host leaves"});
        leave(host_before);
        hand_over();
    }
  }

  void resign(int index) override {
    if (!is_elected_ || !coordination_ || run_outcome_ || index != host_) return;
    to_coordinator(HostLeaves{"the host leaves"});
    hand_over();
  }

  /// Its agent and the coordinator, which are one process.
  void pause_host(int index) {
    Node& node = nodes_[static_cast<std::size_t>(index)];
    if (!node.part || node.is_paused) return;
    is_coordinator_paused_ = coordination_ && index == host_;
    pause(index);
    after(any(100, 9000), [this, index] { resume_host(index); });
  }

  /// All events of the meantime are pending at once: their order is random.
  void resume_host(int index) {
    const bool is_host = is_coordinator_paused_ && index == host_;
    const bool is_late = chance(50);
    if (is_late) resume(index);
    close_stale(index);
    if (is_host) resume_coordinator_in_term();
    if (!is_late) resume(index);
  }

  void resume_coordinator_in_term() {
    is_coordinator_paused_ = false;
    if (!is_in_term()) return lose_term();
    for (const auto& event : std::exchange(coordinator_backlog_, {})) to_coordinator(event);
    const auto unread = std::exchange(unread_, {});
    if (!unread.empty() && unread.back() == incarnation_) on_record_kept();
    renew_term(term_);
  }

  /// Once no node has workers.
  void hand_over() {
    if (!coordination_ || run_outcome_) return;
    if (!coordination_->is_over()) return after(milliseconds(10), [this] { hand_over(); });
    drop_coordinator("the host hands over");
    after(any(1, 500), [this, renewal = renewal_] {
      if (renewal == renewal_) elect();
    });
  }

  /// The host's own agent is notified at once, the others over the network.
  void drop_coordinator(const std::string& why) {
    note(why);
    forget_coordinator();
    const auto connections = connections_;
    for (const auto& [id, connection] : connections) {
      if (connection->node == host_) close_for_host(connection);
      close_at_coordinator(id);
    }
  }

  void forget_coordinator() {
    coordination_.reset();
    queue_ = {};
    unread_.clear();
    coordinator_wake_.reset();
    coordinator_backlog_.clear();
    is_coordinator_paused_ = false;
    ++incarnation_;
  }

  void close_for_host(const std::shared_ptr<Connection>& connection) {
    if (!std::exchange(connection->is_open_at_node, false)) return;
    to_node(connection->node, connection->agent, ConnectionLost{"the term has ended"}, connection);
  }

  /// A stopped host keeps its connections until it continues, even if another one has been elected.
  void leave_behind_paused_host() {
    note("the host is stopped, and its term has ended");
    for (const auto& [id, connection] : connections_) stale_.push_back({host_, connection});
    connections_.clear();
    forget_coordinator();
  }

  void close_stale(int host_index) {
    for (const auto& [index, connection] : std::exchange(stale_, {})) {
      if (index != host_index) {
        stale_.push_back({index, connection});
        continue;
      }
      connection->is_open_at_coordinator = false;
      if (connection->node == index) {
        close_for_host(connection);
      } else {
        arrive_at_node(connection, ConnectionLost{"closed by the former host"}, now_ + delay());
      }
    }
  }

  void elect() {
    if (coordination_ && is_coordinator_paused_) leave_behind_paused_host();
    if (coordination_ || run_outcome_) return;
    std::vector<int> candidates;
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      const Node& node = nodes_[i];
      const bool is_free = node.part && !node.has_workers && !node.is_paused && !node.is_cut;
      if (is_free) candidates.push_back(static_cast<int>(i));
    }
    if (candidates.empty()) {
      return after(any(100, 500), [this, renewal = renewal_] {
        if (renewal == renewal_) elect();
      });
    }
    host_ = candidates[static_cast<std::size_t>(any(0, static_cast<int>(candidates.size()) - 1))];
    note(host().name + " is elected");
    settings_.lease = host().lease;
    boot_coordinator();
    begin_term();
  }

  bool has_lost_etcd_ = false;
  int term_ = 0;             ///< number of terms
  int renewal_ = 0;          ///< total
  Time term_end_;            ///< by the host's clock
  std::vector<int> unread_;  ///< responses to records that a stopped host has not read
  std::vector<std::pair<int, std::shared_ptr<Connection>>> stale_;  ///< of stopped hosts
};

}  // namespace ddprun::test
