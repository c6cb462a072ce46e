#include "rendezvous/membership/round_failures.hpp"

#include "rendezvous/membership/bounds.hpp"
#include "rendezvous/membership/codec.hpp"

#include <algorithm>
#include <utility>

namespace ddprun::membership {

void RoundFailures::note(std::uint64_t node, const std::string& reason, Time now) {
  if (!first_time_) {
    first_time_ = now;
    first_reason_ = reason;
  }
  note_node(node);
}

void RoundFailures::note_node(std::uint64_t node) {
  if (std::count(nodes_.begin(), nodes_.end(), node) == 0) nodes_.push_back(node);
}

void RoundFailures::add(std::uint64_t node, const std::vector<Failure>& failures, Time now) {
  for (const auto& failure : failures) {
    if (reported_.size() < kFailuresMax) reported_.push_back({node, failure});
  }
  if (!failures.empty()) note_node(node);
  if (!first_time_) first_time_ = now;
}

void RoundFailures::add_early_exits(std::uint64_t node, const std::vector<Failure>& exits) {
  for (const auto& exit : exits) {
    if (early_exits_.size() < kEarlyExitsMax) early_exits_.push_back({node, exit});
  }
}

void RoundFailures::add_flights(const std::vector<control::RankFlights>& flights) {
  for (const auto& rank : flights) {
    const auto bytes = encoded_bytes(rank);
    if (flights_bytes_ + bytes > kAllFlightsBytesMax) return;
    flights_bytes_ += bytes;
    flights_.push_back(rank);
  }
}

/// Orders workers that failed on their own before those that blame a peer, then by the order of the
/// nodes' first failure reports: WorkersEnded may arrive in another order, depending on the time
/// for cleanup. If all blame a peer, it may have exited with code 0.
std::vector<RoundFailures::Reported> RoundFailures::sorted() const {
  const auto key = [this](const Reported& reported) {
    const auto place = std::find(nodes_.begin(), nodes_.end(), reported.node);
    return std::pair(reported.failure.is_victim, place - nodes_.begin());
  };
  auto sorted = reported_;
  std::stable_sort(sorted.begin(), sorted.end(),
                   [&](const Reported& a, const Reported& b) { return key(a) < key(b); });
  const bool are_victims = !sorted.empty() && sorted.front().failure.is_victim;
  if (are_victims && are_exits_causes_ && early_exits_.size() == 1)
    sorted.insert(sorted.begin(), early_exits_.front());
  return sorted;
}

std::string RoundFailures::cause() const {
  return reported_.empty() ? first_reason_ : sorted().front().failure.description;
}

std::chrono::duration<double> RoundFailures::ran() const {
  return std::chrono::duration<double>(reported_.empty() ? 0
                                                         : sorted().front().failure.ran_seconds);
}

void RoundFailures::add_to(RunOutcome& outcome) const {
  for (const auto& reported : sorted()) outcome.failures.push_back(reported.failure);
  bound_failures(outcome.failures);
  outcome.flights = flights_;
  std::stable_sort(outcome.flights.begin(), outcome.flights.end(),
                   [](const auto& a, const auto& b) { return a.rank < b.rank; });
}

}  // namespace ddprun::membership
