// Orders a coordinator's actions while a record is being written: actions that follow the record
// wait for it, except heartbeat answers. A value.
#pragma once

#include "rendezvous/membership/coordination.hpp"

#include <deque>
#include <optional>
#include <utility>
#include <vector>

namespace ddprun::membership {

class ActionQueue {
 public:
  void add(std::vector<CoordinatorAction> actions) {
    for (auto& action : actions) {
      (is_answer(action) ? answers_ : others_).push_back(std::move(action));
    }
  }

  /// Returns the next action to perform, or nullopt if all are done or wait for a
  /// record. After a KeepRecord, call kept() once the record is written.
  std::optional<CoordinatorAction> next() {
    auto& from = is_keeping_ || others_.empty() ? answers_ : others_;
    if (from.empty()) return std::nullopt;
    auto action = std::move(from.front());
    from.pop_front();
    is_keeping_ = is_keeping_ || std::holds_alternative<KeepRecord>(action);
    return action;
  }

  void kept() { is_keeping_ = false; }

  /// Returns true if no action is queued or in progress.
  bool is_idle() const { return !is_keeping_ && others_.empty() && answers_.empty(); }

  void clear() {
    answers_.clear();
    others_.clear();
  }

 private:
  static bool is_answer(const CoordinatorAction& action) {
    const auto* send = std::get_if<SendToNode>(&action);
    return send != nullptr && std::holds_alternative<HeartbeatAnswer>(send->message);
  }

  std::deque<CoordinatorAction> answers_;
  std::deque<CoordinatorAction> others_;
  bool is_keeping_ = false;
};

}  // namespace ddprun::membership
