// How much of what nodes say is kept and told to others, so that each message fits into
// kMessageBytesMax whatever has befallen how many workers. Pure.
#pragma once

#include "rendezvous/membership/messages.hpp"

#include <cstddef>
#include <string>
#include <vector>

namespace ddprun::membership {

/// Of a reason: one line for operators, with a path or two in it.
inline constexpr std::size_t kReasonBytesMax = std::size_t{8} << 10;

/// Of what is said of one worker: how it ended, without its output.
inline constexpr std::size_t kDescriptionBytesMax = std::size_t{1} << 10;

/// Enough for any report; a collective error fails a thousand ranks at once.
inline constexpr std::size_t kFailuresMax = 64;

/// Of the exits of one message's failures together.
inline constexpr std::size_t kExitBytesMax = std::size_t{1} << 20;

/// Of what one node tells of its workers' collectives, and of what all of a round do; more is left
/// out.
inline constexpr std::size_t kFlightsBytesMax = std::size_t{128} << 10;
inline constexpr std::size_t kAllFlightsBytesMax = std::size_t{512} << 10;

/// Names that are listed for operators.
inline constexpr std::size_t kNamesListedMax = 64;

/// Of a round, which is told as a whole to each of them; so the bytes grow with the square, to some
/// hundred MiB with usual names. More are spares.
inline constexpr std::size_t kRoundNodesMax = 4096;

/// The message with its texts cut, a cut one ending in "...", and its lists shortened. Failures
/// whose exits are too much together stay without them.
NodeMessage within_bounds(NodeMessage message);

/// As for a message.
void bound_failures(std::vector<Failure>& failures);

}  // namespace ddprun::membership
