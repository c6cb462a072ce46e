#include "rendezvous/membership/run_progress.hpp"

#include <algorithm>

namespace ddprun::membership {

RunProgress::RunProgress(const Settings& settings, const RunRecord& record, Time now)
    : restarts(history_of(record, now)),
      round_(record.round),
      rounds_formed_(record.rounds_formed),
      highest_round_(record.round),
      nodes_(record.nodes),
      formed_(now - record.since_round),
      is_of_former_(true),
      lease_(std::max(settings.lease, record.lease)) {}

RunRecord RunProgress::record(const Settings& settings, Time now) const {
  auto record = record_of(settings, restarts, now);
  record.round = round_;
  record.rounds_formed = rounds_formed_;
  record.nodes = nodes_;
  record.lease = lease_;
  record.since_round = std::chrono::ceil<std::chrono::milliseconds>(now - formed_);
  return record;
}

void RunProgress::note(const Join& join, Time now) {
  highest_round_ = std::max(highest_round_, join.last_round);
  restarts.restarts = std::max(restarts.restarts, join.restarts_used);
  // The record does not contain the time without a coordinator; its ages are older by that.
  const auto missed = join.since_round - (now - formed_);
  if (!is_of_former_ || join.last_round != round_ || missed.count() <= 0) return;
  formed_ -= missed;
  for (auto& when : restarts.recent) when -= missed;
}

void RunProgress::begin_round(const Settings& settings, Time now) {
  highest_round_ = round_ = next_round();
  ++rounds_formed_;
  nodes_.clear();
  formed_ = now;
  is_of_former_ = false;
  lease_ = settings.lease;
}

int RunProgress::next_round() const {
  return std::max(round_, highest_round_) + 1;
}

std::vector<std::string> RunProgress::node_names() const {
  std::vector<std::string> names;
  for (const auto& node : nodes_) names.push_back(node.name);
  return names;
}

}  // namespace ddprun::membership
