// Bounds on the texts and lists in messages, so that each message fits into kMessageBytesMax. Pure.
#pragma once

#include "rendezvous/membership/messages.hpp"

#include <cstddef>
#include <string>
#include <vector>

namespace ddprun::membership {

/// Maximum bytes of a reason: one line for operators, which may contain paths.
inline constexpr std::size_t kReasonBytesMax = std::size_t{8} << 10;

/// Maximum bytes of a worker's failure description, without the worker's output.
inline constexpr std::size_t kDescriptionBytesMax = std::size_t{1} << 10;

/// Maximum number of failures in a message; one failed collective can fail a thousand ranks.
inline constexpr std::size_t kFailuresMax = 64;
inline constexpr std::size_t kEarlyExitsMax = 2;  // shows that it is not the only one

/// Maximum total bytes of the exits in a message's failures.
inline constexpr std::size_t kExitBytesMax = std::size_t{1} << 20;

/// Maximum recorded calls of a group in a message; the last calls are kept. A rank is at most a few
/// calls behind, because ranks wait for each other.
inline constexpr std::size_t kGroupCallsMax = 8;

/// Maximum bytes of the flight records of one node, and of all nodes of a round.
inline constexpr std::size_t kFlightsBytesMax = std::size_t{128} << 10;
inline constexpr std::size_t kAllFlightsBytesMax = std::size_t{512} << 10;

/// Maximum ranks in a HangNotice, and maximum connections.
inline constexpr std::size_t kHungRanksMax = 64;

/// Maximum bytes of a line of stacks: enough for a frame of C++ with a template.
inline constexpr std::size_t kStackLineBytesMax = 256;

/// Maximum bytes of the stacks of one node, which the agent of the host receives from all nodes.
inline constexpr std::size_t kStacksBytesMax = std::size_t{32} << 10;

/// Maximum node names in a message for operators.
inline constexpr std::size_t kNamesListedMax = 64;

/// Maximum nodes in a round; further nodes are spares. Each node receives the round's description,
/// so traffic grows quadratically, to some hundred MiB with typical names.
inline constexpr std::size_t kRoundNodesMax = 4096;

/// Truncates a longer text at a character boundary and appends "...".
void cut(std::string& text, std::size_t bytes_max);

/// Returns the message with its texts cut and its lists shortened. Drops exits of failures beyond
/// kExitBytesMax.
NodeMessage within_bounds(NodeMessage message);

/// Applies the same bounds to a list of failures.
void bound_failures(std::vector<Failure>& failures);

}  // namespace ddprun::membership
