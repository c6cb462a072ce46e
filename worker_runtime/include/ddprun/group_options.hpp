// Options of a process group, and the record of a collective that one of them reports.
#pragma once

#include <ddprun/deadline.hpp>
#include <ddprun/log.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

namespace ddprun {

/// One finished collective, for traces. Times are of the steady clock.
struct CollectiveRecord {
  std::string name;                     ///< "all_reduce"
  std::size_t bytes = 0;                ///< bytes of this rank's input
  std::uint64_t sequence;               ///< position in the group's call order, from 0
  Deadline::Clock::time_point queued;   ///< when it was called
  Deadline::Clock::time_point started;  ///< when it began on this rank
  Deadline::Clock::time_point ended;    ///< when it had ended on this rank
};

/// How a group is made, and how long its calls may take.
struct GroupOptions {
  /// "auto", "host" or another name of available_backends().
  std::string backend = "auto";
  /// Tells groups of the same store apart.
  std::string name = "default";
  /// For all ranks to meet at construction.
  Deadline::Duration join_timeout = std::chrono::minutes(5);
  /// In create(): after so much of it the log is told for whom this rank waits, and again each time
  /// that the wait has become twice as long. Above 0.
  Deadline::Duration waiting_notice = std::chrono::seconds(5);
  /// For one collective, from its start on this rank. PyTorch's Gloo default is the same.
  Deadline::Duration collective_timeout = std::chrono::minutes(30);
  /// Memory that this rank can give out by allocate() and for sends under way; 0 is an even share
  /// of half the machine's, less under limits of address space or file sizes. It is address space
  /// only until it is used.
  std::size_t arena_bytes = 0;
  /// Called after each collective that succeeded by the thread that carried it out (one at a time),
  /// if set. Must not throw.
  std::function<void(const CollectiveRecord&)> on_collective;
  /// Called by threads of the group, too, and by several at once. If it is empty, nothing is
  /// written: neither warnings nor which backend "auto" has chosen instead of its first choice.
  Log log;
};

}  // namespace ddprun
