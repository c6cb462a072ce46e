// The flight recorder of a worker: its process groups record the start and end of each collective
// in the control page, so that the agent can read each rank's progress even if the worker was
// killed or hangs. A record costs some nanoseconds: an unshared cache line and no system call. The
// agent reads the ring during writes and skips entries that change meanwhile.
//
// Calls are stored as numbers together with their names ("all_reduce", "float32"), because the
// agent and the worker's runtime may have different versions.
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

/// Maximum calls kept per group.
inline constexpr std::size_t kFlightsMax = 256;
/// Maximum number of live groups of a worker: world, data, tensor and pipeline parallel groups, and
/// a few for checkpoints. Further groups are not recorded.
inline constexpr std::size_t kFlightGroupsMax = 16;
/// Maximum bytes of a group's name. Longer names are cut.
inline constexpr std::size_t kGroupNameBytesMax = 95;
/// Maximum members recorded. The members of larger groups are omitted.
inline constexpr std::size_t kGroupMembersMax = 256;

/// Names of the numbers in a FlightCall, by number. At most 15 bytes each, 32 names in all.
struct FlightNames {
  std::span<const char* const> calls;
  std::span<const char* const> types;
  std::span<const char* const> reductions;
};

struct FlightCall {
  static constexpr std::uint8_t kNone = 0xff;

  std::uint8_t call = 0;
  std::uint8_t type = 0;  ///< data type; kNone: no data
  std::uint8_t element_bytes = 0;
  std::uint8_t reduction = kNone;
  bool is_message = false;
  std::uint64_t elements = 0;  ///< elements of the part that is equal on all ranks
  std::int32_t peer = -1;      ///< root, or the other rank of a message
  std::int32_t tag = 0;
};

/// A group. Fields are those of GroupFlightRecord.
struct FlightGroup {
  std::string name;
  int rank = 0;
  int size = 1;
  std::vector<int> members{};
};

struct FlightLog;
struct FlightArea;

/// Recorder of one group of this worker. Move-only. Callable from any thread, but by one thread at
/// a time. Calls may end in any order.
class FlightRecorder {
 public:
  using Clock = std::chrono::steady_clock;

  /// Starts to record `group` for the worker in slot `local_rank` of the page. Returns nullopt if
  /// there is no free log.
  static std::optional<FlightRecorder> begin(ControlPage page, int local_rank,
                                             const FlightGroup& group, const FlightNames& names);

  FlightRecorder(FlightRecorder&& other) noexcept;
  FlightRecorder& operator=(FlightRecorder&& other) noexcept;
  /// Marks the group as ended; its log may be reused.
  ~FlightRecorder();

  /// Records the start of a call. Returns the number of the entry, for end().
  std::uint64_t enter(const FlightCall& call, Clock::time_point now) noexcept;
  /// Records the end of a call. Does nothing if the entry has been overwritten.
  void end(std::uint64_t number, FlightState state) noexcept;

  void note(GroupState state) noexcept;

  /// Adds to the time that the worker's threads have waited for calls. Callable by several threads
  /// at a time.
  void add_wait(std::chrono::nanoseconds time) noexcept;

 private:
  FlightRecorder(ControlPage page, FlightArea* area, FlightLog* log)
      : page_(std::move(page)), area_(area), log_(log) {}

  ControlPage page_;
  FlightArea* area_;
  FlightLog* log_;
  std::uint64_t calls_ = 0;
  std::uint64_t collectives_ = 0;
};

/// Returns the time of the kernel's last tick, which is several times as cheap to read as the clock
/// itself.
std::chrono::nanoseconds tick_time() noexcept;

/// Returns the bytes per worker in the page, a multiple of the memory page size.
std::size_t flight_area_bytes() noexcept;

/// Progress of a worker in the calls of all of its live groups.
struct CallActivity {
  std::uint64_t calls = 0;  ///< changes whenever a call starts or ends; 0: none yet
  bool is_in_call = false;
  std::uint64_t heartbeats = 0;  ///< calls of the Python function heartbeat()
  std::uint64_t waits = 0;       ///< completed waits of threads for calls
  /// Sum of these waits, which includes calls that the threads ran themselves. The error of a wait
  /// is a tick of the kernel; errors cancel on average.
  std::chrono::nanoseconds waited{0};

  bool operator==(const CallActivity&) const = default;
};

/// Returns the progress of a worker. Takes some microseconds, unlike read_flights().
CallActivity read_activity(const ControlPage& page, int local_rank) noexcept;

/// Returns what the worker has recorded until `now`. Omits groups whose log was reused. The result
/// is bounded regardless of what the worker has written: ranks are within their groups, ages are
/// not negative, and texts are printable.
WorkerFlights read_flights(const ControlPage& page, int local_rank,
                           FlightRecorder::Clock::time_point now);

}  // namespace ddprun::control
