// The flight recorder of a worker as a file for people and their tools: all calls that it still
// has, where the report tells of the one that is held up.
#pragma once

#include "launcher/report/stalled_collective.hpp"
#include "rendezvous/base/held_path.hpp"

#include <chrono>
#include <string>

namespace ddprun {

/// A JSON document of what the worker had recorded at that time, in that attempt. It has at most
/// 256 calls for each of at most 16 groups, a line each.
std::string flights_document(const RankFlights& rank, int attempt,
                             std::chrono::system_clock::time_point when);

/// Replaces the file; returns why that could not be done, or nothing.
std::string write_flights(const HeldPath& file, const std::string& document);

}  // namespace ddprun
