// The flight recorder of a worker: its process groups write each collective into memory of the
// control page when they enter it and when it has ended, so that the agent can read who had come
// how far even if the worker was killed or hangs. Writing costs some nanoseconds: a cache line that
// nobody else writes, and no system call. The ring is read while it is written; an entry that
// changes meanwhile is left out.
//
// A group's calls are numbers here, whose words ("all_reduce", "float32") stand beside them: the
// agent may be of another version than the worker's runtime.
#pragma once

#include "rendezvous/control/control_page.hpp"
#include "rendezvous/control/flights.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace ddprun::control {

/// Calls of one group that are remembered.
inline constexpr std::size_t kFlightsMax = 256;
/// Groups of one worker, those that have ended left out: world, data, tensor and pipeline parallel
/// ones and a few for checkpoints. More are not recorded.
inline constexpr std::size_t kFlightGroupsMax = 16;
/// Longer names of groups are cut.
inline constexpr std::size_t kGroupNameBytesMax = 95;
/// Of larger groups it is not recorded who they are.
inline constexpr std::size_t kGroupMembersMax = 256;

/// What the numbers of a FlightCall mean, by number. At most 15 bytes each, and 32 in all.
struct FlightWords {
  std::span<const char* const> calls;
  std::span<const char* const> types;
  std::span<const char* const> reductions;
};

struct FlightCall {
  static constexpr std::uint8_t kNone = 0xff;

  std::uint8_t call = 0;
  std::uint8_t type = 0;  ///< kNone: there is no data
  std::uint8_t element_bytes = 0;
  std::uint8_t reduction = kNone;
  bool is_message = false;
  std::uint64_t elements = 0;  ///< of the part that is the same on all ranks
  std::int32_t peer = -1;      ///< root, or the other side of a message
  std::int32_t tag = 0;
};

/// As in GroupFlightRecord.
struct FlightGroup {
  std::string name;
  int rank = 0;
  int size = 1;
  std::vector<int> members{};
};

struct FlightLog;

/// One group of this worker. Move-only. Functions are called one at a time, from any thread; what
/// has been entered may end in another order.
class FlightRecorder {
 public:
  using Clock = std::chrono::steady_clock;

  /// Begins to record `group` of the worker with this slot of the page. Nothing if there is no
  /// room.
  static std::optional<FlightRecorder> begin(ControlPage page, int local_rank,
                                             const FlightGroup& group, const FlightWords& words);

  FlightRecorder(FlightRecorder&& other) noexcept;
  FlightRecorder& operator=(FlightRecorder&& other) noexcept;
  /// The group has ended: its place may be taken by another.
  ~FlightRecorder();

  /// Returns the number of this entry, by which it ends.
  std::uint64_t enter(const FlightCall& call, Clock::time_point now) noexcept;
  /// Nothing if so many were entered since that it is not remembered.
  void end(std::uint64_t number, FlightState state) noexcept;

  void note(GroupState state) noexcept;

 private:
  FlightRecorder(ControlPage page, FlightLog* log) : page_(std::move(page)), log_(log) {}

  ControlPage page_;
  FlightLog* log_;
  std::uint64_t calls_ = 0;
  std::uint64_t collectives_ = 0;
};

/// How many bytes of the page each worker's recorder takes, a multiple of a memory page.
std::size_t flight_area_bytes() noexcept;

/// What the worker has recorded up to `now`, for the agent. Groups whose place another has taken
/// are gone. Whatever the worker may have written in its part of the page, the result is bounded:
/// ranks are within their groups, ages are not negative, texts are printable.
WorkerFlights read_flights(const ControlPage& page, int local_rank,
                           FlightRecorder::Clock::time_point now);

}  // namespace ddprun::control
