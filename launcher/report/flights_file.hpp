// Writes the flight recorder of a worker to a file for users and tools: all recorded calls, whereas
// the report shows only the one that is stalled.
#pragma once

#include "launcher/report/stalled_collective.hpp"
#include "rendezvous/base/held_path.hpp"
#include "rendezvous/base/problem.hpp"

#include <chrono>
#include <string>

namespace ddprun {

/// Returns a JSON document of the worker's flights at a time in an attempt: at most 256 calls for
/// each of at most 16 groups, one per line.
std::string flights_document(const RankFlights& rank, int attempt,
                             std::chrono::system_clock::time_point when);

/// Replaces the file. Returns the error.
Problem write_flights(const HeldPath& file, const std::string& document);

}  // namespace ddprun
