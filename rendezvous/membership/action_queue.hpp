// The order in which a coordinator's actions are carried out while what must outlive it is being
// written down: what follows a record waits for it, but not the answers to nodes that renew their
// leases. A value. A connection adds a few actions at most, so the bound of those is that of what
// waits.
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

  /// What may be carried out now; nothing: all has been, or waits. After a KeepRecord kept() has to
  /// be called.
  std::optional<CoordinatorAction> next() {
    auto& from = is_keeping_ || others_.empty() ? answers_ : others_;
    if (from.empty()) return std::nullopt;
    auto action = std::move(from.front());
    from.pop_front();
    is_keeping_ = is_keeping_ || std::holds_alternative<KeepRecord>(action);
    return action;
  }

  void kept() { is_keeping_ = false; }

  /// Whether nothing waits.
  bool is_idle() const { return !is_keeping_ && others_.empty() && answers_.empty(); }

  void clear() {
    answers_.clear();
    others_.clear();
  }

 private:
  static bool is_answer(const CoordinatorAction& action) {
    const auto* tell = std::get_if<Tell>(&action);
    return tell != nullptr && std::holds_alternative<HeartbeatAnswer>(tell->message);
  }

  std::deque<CoordinatorAction> answers_;
  std::deque<CoordinatorAction> others_;
  bool is_keeping_ = false;
};

}  // namespace ddprun::membership
