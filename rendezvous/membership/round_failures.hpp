// What went wrong in a round: which nodes said so in which order, and what they told of it. A
// value; it decides nothing but which failure was the first cause.
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
  /// A node says that a worker of its own is failing, before it knows more. The first reason stays.
  void note(std::uint64_t node, const std::string& reason, Time now);

  /// What a node tells of its workers once they have ended; none: it could not start them.
  void add(std::uint64_t node, const std::vector<Failure>& failures, Time now);

  /// What a node tells of its workers' collectives; it is kept as long as there is room.
  void add_flights(const std::string& flights);

  /// When the first failure was heard of.
  const std::optional<Time>& first_time() const { return first_time_; }

  /// What to blame, once all have told: the first cause, or what was said first.
  std::string cause() const;

  /// How long the worker that is to blame had run.
  std::chrono::duration<double> ran() const;

  /// Puts the failures, first cause first, and the flights into `outcome`; exits are left out
  /// where they would not fit into a message.
  void tell(RunOutcome& outcome) const;

 private:
  struct Reported {
    std::uint64_t node = 0;
    Failure failure;
  };
  void note_node(std::uint64_t node);
  std::vector<Reported> sorted() const;

  std::vector<Reported> reported_;
  std::vector<std::string> flights_;
  std::size_t flights_bytes_ = 0;
  std::vector<std::uint64_t> nodes_;  ///< in the order in which they told of a failure
  std::optional<Time> first_time_;
  std::string first_reason_;
};

}  // namespace ddprun::membership
