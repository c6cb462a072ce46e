// Attempts of a node to connect to the coordinator: their pauses, their deadline, and the reasons
// for which they fail. A value.
#pragma once

#include "rendezvous/membership/settings.hpp"

#include <chrono>
#include <optional>
#include <string>

namespace ddprun::membership {

class ConnectionAttempts {
 public:
  /// Starts the attempts. Until its first round, the node tries for settings.join_timeout.
  ConnectionAttempts(const Settings& settings, Time now);

  /// Must be called when a joined connection is lost. The node tries for settings.rejoin_timeout.
  void rejoin(const std::string& loss, Time now);

  void on_joined();
  /// Must be called when a connection has ended or an attempt has failed.
  void on_disconnected(const std::string& reason) { last_problem_ = reason; }
  void on_failed(const std::string& reason, Time now);

  /// Must be called when a peer that has not proven to know the secret refuses this node, as any
  /// program at the port can. Returns false once such refusals have lasted too long to retry.
  bool tolerates_refusal(Time now);
  /// Must be called when an attempt has failed in another way.
  void forget_refusals() { first_refusal_.reset(); }

  /// Returns the deadline for connecting.
  Time give_up() const { return give_up_; }
  /// Returns the reason why the node gave up.
  std::string give_up_reason() const;

  /// Returns the time of the next attempt. Each pause is twice as long as the previous one.
  Time next(Time now);

  /// Returns a message for the operator if one is due.
  std::optional<std::string> take_announcement(Time now);

  const std::string& last_problem() const { return last_problem_; }

 private:
  std::chrono::milliseconds rejoin_timeout_;
  Time give_up_;
  std::chrono::milliseconds give_up_after_;
  std::chrono::milliseconds pause_;    ///< pause before the next attempt
  std::string last_problem_;           ///< latest connection error
  std::optional<Time> first_refusal_;  ///< first of the latest consecutive unproven refusals
  std::string loss_;                   ///< why the joined connection ended; empty while connected
  Time next_announcement_;
  std::chrono::milliseconds announcement_pause_;
};

}  // namespace ddprun::membership
