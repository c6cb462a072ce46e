// Layout of the flight recorder in the control page. Each worker has several logs, one for each of
// its groups; all are initially zero. flight_recorder.cpp writes them in the worker,
// read_flights.cpp reads them in the agent.
#pragma once

#include "rendezvous/control/flight_recorder.hpp"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace ddprun::control {

inline constexpr std::size_t kFlightNamesMax = 32;
inline constexpr std::size_t kFlightNameBytes = 16;
inline constexpr std::size_t kFlightPage = 4096;  // unused pages use no memory

/// Values of FlightEntry::state in addition to FlightState.
inline constexpr std::uint32_t kMessageFlag = 0x100;

/// A call. Writes are enclosed by two changes of the stamp, so that readers detect torn reads.
struct alignas(64) FlightEntry {
  std::atomic<std::uint64_t> stamp;   ///< number of the call in the group, from 1; 0: being written
  std::atomic<std::uint64_t> number;  ///< number of the collective
  std::atomic<std::uint64_t> elements;
  std::atomic<std::int64_t> entered;  ///< nanoseconds of the monotonic clock
  std::atomic<std::int64_t> ended;
  std::atomic<std::int32_t> peer;
  std::atomic<std::int32_t> tag;
  std::atomic<std::uint32_t> kind;  ///< call, type, bytes of an element, reduction: a byte each
  std::atomic<std::uint32_t> state;
};
static_assert(sizeof(FlightEntry) == 64);

struct alignas(kFlightPage) FlightLog {
  /// A recorder that takes a log describes its group before readers may use it.
  enum Use : std::uint32_t { free, taken, over, being_described };

  std::atomic<std::uint32_t> use;
  std::atomic<std::uint32_t> described;  ///< number of descriptions begun
  std::atomic<std::uint32_t> state;      ///< GroupState
  std::atomic<std::int64_t> ended;       ///< time when its last group ended
  std::atomic<std::uint64_t> collectives;
  std::atomic<std::int32_t> rank;
  std::atomic<std::int32_t> size;
  std::atomic<std::uint32_t> first_type;  ///< index in the names
  std::atomic<std::uint32_t> first_reduction;
  std::atomic<std::uint32_t> members_listed;
  std::array<char, kGroupNameBytesMax + 1> name;
  std::array<std::array<char, kFlightNameBytes>, kFlightNamesMax> names;
  std::array<std::int32_t, kGroupMembersMax> members;
  std::array<FlightEntry, kFlightsMax> entries;

  bool take(std::uint32_t from) { return use.compare_exchange_strong(from, being_described); }
  static bool is_readable(std::uint32_t seen) { return seen == taken || seen == over; }
};

/// One worker's part of the page.
struct FlightArea {
  std::array<std::byte, ControlPage::kSlotBytes> slot;
  std::atomic<std::int32_t> unrecorded_groups;
  std::atomic<std::int64_t> waited;       ///< CallActivity::waited
  std::atomic<std::uint64_t> heartbeats;  ///< by python/ddprun, which knows its place
  std::atomic<std::uint64_t> waits;       ///< CallActivity::waits
  std::array<FlightLog, kFlightGroupsMax> logs;

  static FlightArea& of(const ControlPage& page, int local_rank) {
    return *static_cast<FlightArea*>(page.worker_area(local_rank));
  }
};

static_assert(offsetof(FlightArea, heartbeats) == 144);

}  // namespace ddprun::control
