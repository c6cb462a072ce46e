// Encodes the progress of a node's workers in their collectives as text for the agents of other
// nodes, so that any report covers all ranks. Pure.
#pragma once

#include "launcher/report/stalled_collective.hpp"

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

/// Maximum calls encoded per group, the last ones: ranks wait for each other, so none is far
/// behind.
inline constexpr std::size_t kRecordedFlightsMax = 8;

/// Maximum bytes of the text of one node. A rank takes some hundred bytes per group; ranks that do
/// not fit are omitted, the last ones first.
inline constexpr std::size_t kFlightsRecordBytesMax = std::size_t{128} << 10;

/// Returns an empty text if nothing was recorded.
std::string to_flights_record(const std::vector<RankFlights>& ranks);

/// Returns an empty vector if the text is not a valid record or too long. Never throws.
std::vector<RankFlights> from_flights_record(std::string_view record);

}  // namespace ddprun
