// Agents that want the place of another one that seems to be there: the same node, at the same
// rank, started anew, or started twice. Which of the two it is shows when the other one is lost, or
// is heard of again. A value.
#pragma once

#include "rendezvous/membership/roster.hpp"

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace ddprun::membership {

class DuplicateAgents {
 public:
  /// They hear so often that they have not been forgotten.
  explicit DuplicateAgents(std::chrono::milliseconds pause) : pause_(pause) {}

  /// `why` it waits, for its operator.
  void add(NodeId id, Join join, NodeId former, const std::string& why, Time now) {
    if (waiting_.empty()) next_word_ = now + pause_;
    waiting_.insert_or_assign(id, Duplicate{std::move(join), former, now, why});
  }
  void remove(NodeId id) { waiting_.erase(id); }
  bool contains(NodeId id) const { return waiting_.contains(id); }

  std::optional<Time> next_word() const {
    return waiting_.empty() ? std::nullopt : std::optional(next_word_);
  }

  /// Who has to hear now that it still waits, and why.
  std::vector<std::pair<NodeId, std::string>> take_words(Time now) {
    std::vector<std::pair<NodeId, std::string>> words;
    if (waiting_.empty() || now < next_word_) return words;
    next_word_ = now + pause_;
    for (const auto& [id, contender] : waiting_) words.emplace_back(id, contender.why);
    return words;
  }

  struct ContentionResult {
    std::vector<std::pair<NodeId, Join>> free{};     ///< nobody is in their place any more
    std::vector<std::pair<NodeId, Join>> late{};     ///< neither, but they have asked long ago
    std::vector<std::pair<NodeId, Join>> refused{};  ///< another one lives there
  };

  /// Those of whom it is known now; they wait no more. `lease` is that of members, which are heard
  /// of several times in it. One that leaves lives, but not for long.
  ContentionResult settle(const Roster& roster, std::chrono::milliseconds lease, Time now) {
    ContentionResult settled;
    for (auto each = waiting_.begin(); each != waiting_.end();) {
      const auto* former = roster.find(each->second.former);
      const bool lives = former != nullptr && !former->is_leaving &&
                         goes_on(each->second, former->lease_end - lease, lease);
      if (former != nullptr && !lives) {
        ++each;
        continue;
      }
      const bool is_late = now - each->second.since >= lease / kHeartbeatsPerLease;
      auto& into = lives ? settled.refused : is_late ? settled.late : settled.free;
      into.emplace_back(each->first, std::move(each->second.join));
      each = waiting_.erase(each);
    }
    return settled;
  }

 private:
  struct Duplicate {
    Join join;
    NodeId former = 0;
    Time since;
    std::string why;
    std::optional<Time> first_heard{};  ///< of the former, after that
  };

  /// Last words that the network has held up come all at once.
  static bool goes_on(Duplicate& contender, Time last_heard, std::chrono::milliseconds lease) {
    constexpr int kLeaseParts = 3;
    if (last_heard <= contender.since) return false;
    if (!contender.first_heard) contender.first_heard = last_heard;
    return last_heard >= *contender.first_heard + lease / kLeaseParts;
  }

  std::chrono::milliseconds pause_;
  Time next_word_;
  std::map<NodeId, Duplicate> waiting_;
};

}  // namespace ddprun::membership
