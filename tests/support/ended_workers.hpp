// Exited workers and the time of their exit, for tests of reports.
#pragma once

#include "launcher/report/event.hpp"

#include <chrono>

namespace ddprun::test {

// 2026-11-21 12:34:56 UTC.
inline const std::chrono::system_clock::time_point kNoon{
    std::chrono::milliseconds(1'795'264'496'789)};

inline WorkerExited worker(int rank) {
  WorkerExited exited;
  exited.rank = exited.local_rank = rank;
  exited.pid = 26600 + rank;
  exited.ran_seconds = 3.25;
  return exited;
}

inline WorkerExited killed(int rank, int signal) {
  auto exited = worker(rank);
  exited.signal = signal;
  return exited;
}

inline WorkerExited failed(int rank, int code) {
  auto exited = worker(rank);
  exited.exit_code = code;
  return exited;
}

}  // namespace ddprun::test
