// The flight recorder of a worker: its process groups record the start and end of each collective
// in the control page, so that the agent can read each rank's progress even if the worker was
// killed or hangs. A record costs some nanoseconds: an unshared cache line and no system call. The
// agent reads the ring during writes and skips entries that change meanwhile.
//
// Calls are stored as numbers, with their names ("all_reduce", "float32") beside them: the agent
// may have another version than the worker's runtime.
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

/// Calls kept per group.
inline constexpr std::size_t kFlightsMax = 256;
/// Maximum number of live groups of a worker: world, data, tensor and pipeline parallel ones, and a
/// few for checkpoints. Further ones are not recorded.
inline constexpr std::size_t kFlightGroupsMax = 16;
/// Longer names of groups are cut.
inline constexpr std::size_t kGroupNameBytesMax = 95;
/// The members of larger groups are not recorded.
inline constexpr std::size_t kGroupMembersMax = 256;

/// Names of the numbers in a FlightCall, by number. At most 15 bytes each, 32 names in all.
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

/// One group of this worker. Move-only. Not thread-safe, but callable from any thread; calls may
/// end in any order.
class FlightRecorder {
 public:
  using Clock = std::chrono::steady_clock;

  /// Starts to record `group` of the worker with this slot of the page. Returns nullopt if there is
  /// no room.
  static std::optional<FlightRecorder> begin(ControlPage page, int local_rank,
                                             const FlightGroup& group, const FlightWords& words);

  FlightRecorder(FlightRecorder&& other) noexcept;
  FlightRecorder& operator=(FlightRecorder&& other) noexcept;
  /// Marks the group as ended; its log may be reused.
  ~FlightRecorder();

  /// Returns the number of this entry, by which it ends.
  std::uint64_t enter(const FlightCall& call, Clock::time_point now) noexcept;
  /// Does nothing if the entry has been overwritten.
  void end(std::uint64_t number, FlightState state) noexcept;

  void note(GroupState state) noexcept;

 private:
  FlightRecorder(ControlPage page, FlightLog* log) : page_(std::move(page)), log_(log) {}

  ControlPage page_;
  FlightLog* log_;
  std::uint64_t calls_ = 0;
  std::uint64_t collectives_ = 0;
};

/// Bytes of the page per worker, a multiple of a memory page.
std::size_t flight_area_bytes() noexcept;

/// Returns what the worker has recorded until `now`. Groups whose log was reused are absent. The
/// result is bounded whatever the worker has written: ranks are within their groups, ages are not
/// negative, texts are printable.
WorkerFlights read_flights(const ControlPage& page, int local_rank,
                           FlightRecorder::Clock::time_point now);

}  // namespace ddprun::control
