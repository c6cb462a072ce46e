// Writes the flight recorder of a worker to a file for users and tools. The file has all recorded
// calls; the report shows only the stalled call.
#pragma once

#include "launcher/report/stalled_collective.hpp"
#include "rendezvous/base/held_path.hpp"
#include "rendezvous/base/problem.hpp"

#include <chrono>
#include <string>

namespace ddprun {

/// Returns a JSON document of the worker's flights at a time in an attempt, with one call per line:
/// at most 256 calls in each of at most 16 groups.
std::string flights_document(const RankFlights& rank, int attempt,
                             std::chrono::system_clock::time_point when);

/// Replaces the file. Returns the error, if any.
Problem write_flights(const HeldPath& file, const std::string& document);

}  // namespace ddprun
