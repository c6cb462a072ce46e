// The failures of a round, in the order of the nodes' reports. Value type; determines only the
// root cause.
#pragma once

#include "rendezvous/membership/messages.hpp"
#include "rendezvous/membership/settings.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ddprun::membership {

class RoundFailures {
 public:
  /// A node reports that a worker is failing, without details. The first reason is kept.
  void note(std::uint64_t node, const std::string& reason, Time now);

  /// Failures reported by a node after its workers ended; empty if it could not start them.
  void add(std::uint64_t node, const std::vector<Failure>& failures, Time now);

  /// Workers of a node that exited with code 0; see WorkersEnded.
  void add_early_exits(std::uint64_t node, const std::vector<Failure>& exits);

  /// A lost node explains failures that blame a peer, so early exits do not.
  void ignore_early_exits() { are_exits_causes_ = false; }

  /// Flight records reported by a node; dropped beyond kAllFlightsBytesMax.
  void add_flights(const std::vector<control::RankFlights>& flights);

  /// Time of the first failure report.
  const std::optional<Time>& first_time() const { return first_time_; }

  /// Root cause once all nodes have reported, otherwise the first reason.
  std::string cause() const;

  /// Run time of the worker that is the root cause.
  std::chrono::duration<double> ran() const;

  /// Puts the failures, first cause first, and the flights into `outcome`; exits are left out
  /// where they would not fit into a message.
  void add_to(RunOutcome& outcome) const;

 private:
  struct Reported {
    std::uint64_t node = 0;
    Failure failure;
  };
  void note_node(std::uint64_t node);
  std::vector<Reported> sorted() const;

  std::vector<Reported> reported_;
  std::vector<Reported> early_exits_;
  bool are_exits_causes_ = true;
  std::vector<control::RankFlights> flights_;
  std::size_t flights_bytes_ = 0;
  std::vector<std::uint64_t> nodes_;  ///< in the order of their failure reports
  std::optional<Time> first_time_;
  std::string first_reason_;
};

}  // namespace ddprun::membership
