// Reachability between nodes: probes and their consequences.
#include "rendezvous/membership/coordination.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace ddprun::membership {

namespace {

/// With fewer nodes, one is the host, which all others have reached.
constexpr std::size_t kProbedNodesMin = 3;

/// Time for the answers to arrive after all attempts to connect ended.
constexpr auto kAnswerTime = std::chrono::seconds(1);

/// Interval of probes while a node is excluded from a round; a probe costs a few packets.
constexpr std::chrono::milliseconds kProbeInterval = std::chrono::seconds(30);

/// Before the second probe while too few nodes can reach each other. Each further pause is twice as
/// long, up to kProbeInterval.
constexpr std::chrono::milliseconds kFirstRetryPause = std::chrono::seconds(5);

std::string retry_text() {
  return " (probed again every " + seconds_text(kProbeInterval) + ")";
}

bool is_spare(const Roster::Member& member) {
  return member.workers == Roster::Workers::none && !member.is_leaving && !member.held_back_until;
}

}  // namespace

void Coordination::on_message(NodeId id, const Probed& probed) {
  reach_.note(id, probed);
}

/// All candidates connect to each other, except to the host, which all have reached. Returns false
/// if there is nothing to probe; no cuts are known then.
bool Coordination::begin_probe() {
  next_retry_.reset();
  std::vector<Reachability::Node> nodes;
  bool has_targets = false;
  for (const NodeId id : roster_.candidates()) {
    const Join& join = roster_.find(id)->join;
    nodes.push_back({.id = id, .address = join.is_host ? ProbeAddress{} : join.probe});
    has_targets = has_targets || nodes.back().address.port != 0;
  }
  const bool is_possible = settings_.probe_timeout.count() > 0 && has_targets &&
                           nodes.size() >= kProbedNodesMin && nodes.size() <= kProbedNodesMax;
  if (!is_possible) {
    reach_.clear();
    return false;
  }
  const auto number =
      reach_.begin(std::move(nodes), now_, now_ + settings_.probe_timeout + kAnswerTime);
  for (const auto& node : reach_.nodes()) {
    send(node.id,
         Probe{
             .number = number, .timeout = settings_.probe_timeout, .peers = reach_.peers_of(node)});
  }
  return true;
}

/// Returns true if the reachability of all candidates is known. Otherwise starts a probe if needed.
bool Coordination::knows_reach() {
  if (reach_.is_running()) return false;
  return reach_.covers(roster_.candidates()) || !begin_probe();
}

void Coordination::use_probe() {
  if (phase_ == Phase::running) {
    if (has_room_for_others()) {
      if (!knows_reach()) return;  // new nodes have joined meanwhile
      admit_reachable();
    }
    // The next round may be much later.
    if (phase_ == Phase::running) reach_.expire();
    return;
  }
  if (phase_ != Phase::stopping) return;
  std::vector<NodeId> nodes;
  for (const auto& [id, member] : roster_.all()) {
    if (member.workers != Workers::none) nodes.push_back(id);
  }
  const auto cuts = cuts_among(std::move(nodes), roster_, reach_);
  if (cuts.empty()) return;
  end_.note({.kind = MembershipChange::Kind::is_cut,
             .reason = describe_cuts(cuts),
             .when = reach_.begun()},
            2 * settings_.lease);
}

/// Probes again to readmit unreachable nodes.
void Coordination::retry() {
  next_retry_.reset();
  if (phase_ == Phase::gathering) reach_.expire();
  if (phase_ != Phase::running || !has_room_for_others() || reach_.is_running()) return;
  if (!begin_probe()) admit_reachable();
}

/// Ends the round if spare nodes would make the next one larger. If nodes have left the round after
/// their success, reachable spares count.
void Coordination::admit_reachable() {
  const auto choice = choose_nodes(roster_, reach_);
  std::vector<NodeId> spares;
  std::vector<std::string> joined;
  for (const auto& [id, member] : roster_.all()) {
    if (!is_spare(member)) continue;
    spares.push_back(id);
    if (!choice.cut_off.contains(id)) joined.push_back(member.join.name);
  }
  const auto size = std::min(choice.chosen.size(), static_cast<std::size_t>(settings_.nodes_max));
  if (size > static_cast<std::size_t>(roster_.count(Workers::running))) {
    const std::string verb = joined.size() == 1 ? " has" : " have";
    return change(MembershipChange::Kind::comes, listed(std::move(joined)) + verb + " joined",
                  now_);
  }
  if (spares.empty()) return;
  next_retry_ = now_ + kProbeInterval;
  const auto text = describe_cuts(choice, roster_, reach_) +
                    "; the others continue without this node" + retry_text();
  for (const NodeId id : spares) send(id, Waiting{text, true});
}

void Coordination::form_largest_round() {
  const auto least = static_cast<std::size_t>(settings_.nodes_min);
  roster_.end_holding_back(now_, settings_.nodes_min);
  if (!knows_reach() || next_retry_) return;
  auto choice = choose_nodes(roster_, reach_);
  if (choice.chosen.size() < least && !roster_.held_back().empty()) {
    roster_.end_holding_back(now_, std::numeric_limits<int>::max());
    if (!knows_reach()) return;
    choice = choose_nodes(roster_, reach_);
  }
  if (choice.chosen.size() >= least) return form_round(choice);
  wait_for_reach(choice);
}

/// The network may recover soon, or other nodes may join.
void Coordination::wait_for_reach(const NodeChoice& choice) {
  if (gather_end_ <= now_) {
    end_ = {};  // workers that failed at the cut are not the cause
    return finish(RunResult::no_rendezvous,
                  describe_shortage_of_reach(choice) + "; gave up after " +
                      seconds_text(settings_.join_timeout) +
                      " (join_timeout; --rdzv_conf=probe_timeout=0 disables this check)");
  }
  const bool is_first = !retry_pause_;
  retry_pause_ = is_first ? kFirstRetryPause : std::min(2 * *retry_pause_, kProbeInterval);
  next_retry_ = std::min(now_ + *retry_pause_, gather_end_);
  if (is_first) roster_.notify_at(now_);
}

std::string Coordination::describe_waiting_for_reach(const NodeChoice& choice) const {
  const auto left = std::max(gather_end_ - now_, Time::duration::zero());
  return describe_shortage_of_reach(choice) + "; probing again for " +
         seconds_text(std::chrono::ceil<std::chrono::seconds>(left)) + " at most";
}

std::string Coordination::describe_shortage_of_reach(const NodeChoice& choice) const {
  return describe_cuts(choice, roster_, reach_) + "; a round needs " +
         counted_nodes(settings_.nodes_min) + " that can all reach each other, and at most " +
         std::to_string(choice.chosen.size()) + " can";
}

/// An intermittent cut would end a round each time that it recovers.
void Coordination::hold_back_cut_off(const NodeChoice& choice) {
  for (const NodeId id : choice.cut_off) {
    Member& member = *roster_.find(id);
    const auto came = std::exchange(member.came, now_);
    if (member.node_rank < 0) continue;  // not in the last round
    flapping_.note(member.join.name, came, now_);
    const auto time = flapping_.hold_back(member.join.name);
    if (time.count() > 0) member.held_back_until = now_ + time;
  }
}

void Coordination::notify_cut_off(const NodeChoice& choice) {
  next_retry_.reset();
  if (choice.cut_off.empty()) return;
  std::vector<std::string> names;
  for (const NodeId id : choice.cut_off) {
    const Member& member = *roster_.find(id);
    names.push_back(member.join.name);
    if (!member.held_back_until) next_retry_ = now_ + kProbeInterval;
  }
  const auto text = describe_cuts(choice, roster_, reach_) + ": the round begins without " +
                    listed(std::move(names)) + (next_retry_ ? retry_text() : std::string());
  for (const auto& [id, member] : roster_.all()) {
    if (!member.is_leaving) send(id, Waiting{text, true});
  }
}

}  // namespace ddprun::membership
