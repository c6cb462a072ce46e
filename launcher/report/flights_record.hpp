// How far the workers of a node had come in their collectives, as text for the agents of other
// nodes, whose report is to tell of all ranks. Pure.
#pragma once

#include "launcher/report/stalled_collective.hpp"

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

/// Of each group the last calls: ranks wait for each other, so none is far behind.
inline constexpr std::size_t kRecordedFlightsMax = 8;

/// Of one node's text. A rank takes some hundred bytes for each of its groups; what does not fit is
/// left out, rank by rank from the last on.
inline constexpr std::size_t kFlightsRecordBytesMax = std::size_t{128} << 10;

/// Empty if nothing was recorded.
std::string to_flights_record(const std::vector<RankFlights>& ranks);

/// Nothing if the text is no record, or too long for one. Never throws.
std::vector<RankFlights> from_flights_record(std::string_view record);

}  // namespace ddprun
