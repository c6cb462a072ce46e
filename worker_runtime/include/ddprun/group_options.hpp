// Options of a process group, and the record of a collective for on_collective.
#pragma once

#include <ddprun/deadline.hpp>
#include <ddprun/log.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

namespace ddprun {

/// A completed collective, for traces. Times use the steady clock.
struct CollectiveRecord {
  std::string name;                     ///< name, such as "all_reduce"
  std::size_t bytes = 0;                ///< size of this rank's input
  std::uint64_t sequence;               ///< index in the group's call order, from 0
  Deadline::Clock::time_point queued;   ///< time of the call
  Deadline::Clock::time_point started;  ///< start on this rank
  Deadline::Clock::time_point ended;    ///< end on this rank
};

/// Maximum length of a group's name in bytes, including the names of its parents. Keys in the store
/// and error messages contain it.
inline constexpr std::size_t kGroupNameBytesMax = 256;
/// Maximum of GroupOptions::arena_bytes, far above the memory of any machine. The total of all
/// workers of a node does not overflow.
inline constexpr std::size_t kArenaBytesMax = std::size_t{1} << 52;

/// Options of a group.
struct GroupOptions {
  /// Name of the backend: "auto", "host" or another name of available_backends().
  std::string backend = "auto";
  /// Name of the group, unique in its store: 1 to kGroupNameBytesMax bytes without control
  /// characters.
  std::string name = "default";
  /// Time limit for all ranks to connect. Positive.
  Deadline::Duration join_timeout = std::chrono::minutes(5);
  /// Time until create() logs missing ranks for the first time; intervals then double. Positive.
  Deadline::Duration waiting_notice = std::chrono::seconds(5);
  /// Time limit of a collective from its start on this rank. Positive. The default is PyTorch's for
  /// Gloo.
  Deadline::Duration collective_timeout = std::chrono::minutes(30);
  /// True: other threads may call the group while one waits for its own calls. The program must
  /// prevent concurrent calls, and order the calls in the same way on all ranks.
  bool has_calling_threads = false;
  /// Memory of this rank for allocate() and pending sends, in bytes, at most kArenaBytesMax; 0: an
  /// even share of half of the machine's memory, or less if address space or file size is limited.
  /// Pages are allocated on first use.
  std::size_t arena_bytes = 0;
  /// Called after each successful collective by the thread that ran it, one at a time. Must not
  /// throw.
  std::function<void(const CollectiveRecord&)> on_collective;
  /// Log for warnings, such as the reason why "auto" did not choose its first backend. Called by
  /// any thread, also concurrently. Empty: no log.
  Log log;
};

}  // namespace ddprun
