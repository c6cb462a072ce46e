// Drives a Coordination manually: times in milliseconds from its start, nodes by number.
#pragma once

#include "rendezvous/membership/coordination.hpp"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace ddprun::test {

class CoordinationDriver {
 public:
  explicit CoordinationDriver(membership::Settings settings)
      : coordination_(settings, at(0)), settings_(std::move(settings)) {}
  CoordinationDriver(membership::Settings settings, const membership::RunRecord& record)
      : coordination_(settings, record, at(0)), settings_(std::move(settings)) {}

  static membership::Time at(int milliseconds) {
    return membership::Time(std::chrono::hours(1)) + std::chrono::milliseconds(milliseconds);
  }

  membership::Join join_of(const std::string& name) const {
    return {.run_id = settings_.run_id,
            .name = name,
            .instance = ++last_instance_,
            .nodes_min = settings_.nodes_min,
            .nodes_max = settings_.nodes_max,
            .max_restarts = settings_.restarts.max_restarts};
  }

  void join(membership::NodeId node, const std::string& name, int now) {
    send(node, join_of(name), now);
  }
  void send(membership::NodeId node, const membership::NodeMessage& message, int now) {
    apply(membership::NodeMessageReceived{node, message}, now);
  }
  void gone(membership::NodeId node, int now) {
    apply(membership::NodeDisconnected{node, "its connection was closed"}, now);
  }
  void host_leaves(const std::string& reason, int now) {
    apply(membership::HostLeaves{reason}, now);
  }
  /// Sends heartbeats of these nodes, so that only others are silent.
  void beat(const std::vector<membership::NodeId>& nodes, int now) {
    for (const auto node : nodes) send(node, membership::Heartbeat{}, now);
  }
  void pass(int now) { apply(membership::TimePassed{}, now); }

  /// Returns messages of this type that the last event sent to the node.
  template <typename Message>
  std::vector<Message> sent_to(membership::NodeId node) const {
    std::vector<Message> messages;
    for (const auto& action : actions_) {
      const auto* send = std::get_if<membership::SendToNode>(&action);
      if (send == nullptr || send->node != node) continue;
      if (const auto* message = std::get_if<Message>(&send->message)) messages.push_back(*message);
    }
    return messages;
  }

  template <typename Action>
  bool has() const {
    for (const auto& action : actions_) {
      if (std::holds_alternative<Action>(action)) return true;
    }
    return false;
  }

  /// Index of the first action of this type among those of the last event; the number of actions
  /// without one.
  template <typename Action>
  std::size_t index_of() const {
    std::size_t index = 0;
    while (index < actions_.size() && !std::holds_alternative<Action>(actions_[index])) ++index;
    return index;
  }

  std::vector<membership::KeepRecord> kept() const {
    std::vector<membership::KeepRecord> records;
    for (const auto& action : actions_) {
      if (const auto* record = std::get_if<membership::KeepRecord>(&action)) {
        records.push_back(*record);
      }
    }
    return records;
  }

  membership::Coordination& coordination() { return coordination_; }

 private:
  void apply(const membership::CoordinatorEvent& event, int now) {
    actions_ = coordination_.apply(event, at(now));
  }

  membership::Coordination coordination_;
  membership::Settings settings_;
  mutable std::uint64_t last_instance_ = 0;  ///< a different agent for each join
  std::vector<membership::CoordinatorAction> actions_;
};

}  // namespace ddprun::test
