#include "rendezvous/control/flight_log.hpp"
#include "rendezvous/control/flight_recorder.hpp"

#include <algorithm>
#include <cstring>
#include <tuple>
#include <utility>

namespace ddprun::control {

namespace {

using Nanoseconds = std::chrono::nanoseconds;

/// Another process has written it, perhaps without an end.
template <std::size_t N>
std::string text_of(const std::array<char, N>& from) {
  return {from.data(), ::strnlen(from.data(), N)};
}

std::string word(const FlightLog& log, std::uint32_t index) {
  return index < kFlightWordsMax ? text_of(log.words[index]) : "?";
}

/// What was read of an entry, belonging together.
struct Reading {
  std::uint64_t stamp = 0;
  std::uint64_t number = 0;
  std::uint64_t elements = 0;
  std::int64_t entered = 0;
  std::int64_t ended = 0;
  std::int32_t peer = -1;
  std::int32_t tag = 0;
  std::uint32_t kind = 0;
  std::uint32_t state = 0;

  std::uint8_t call() const { return kind & 0xff; }
  std::uint8_t type() const { return kind >> 8 & 0xff; }
  std::uint8_t element_bytes() const { return kind >> 16 & 0xff; }
  std::uint8_t reduction() const { return static_cast<std::uint8_t>(kind >> 24); }
  bool is_message() const { return (state & kMessageFlag) != 0; }
};

/// Nothing if it is empty or was written meanwhile.
std::optional<Reading> read(const FlightEntry& entry) {
  constexpr auto before =
      std::memory_order_acquire;  // what is read after, that is, the stamp again
  Reading reading{.stamp = entry.stamp.load(before),
                  .number = entry.number.load(before),
                  .elements = entry.elements.load(before),
                  .entered = entry.entered.load(before),
                  .ended = 0,
                  .peer = entry.peer.load(before),
                  .tag = entry.tag.load(before),
                  .kind = entry.kind.load(before),
                  .state = entry.state.load(before)};
  reading.ended = entry.ended.load(before);
  const bool is_whole = reading.stamp != 0 && reading.stamp == entry.stamp.load();
  return is_whole ? std::optional(reading) : std::nullopt;
}

/// As all workers call the group's rank.
std::string rank_text(const FlightLog& log, std::int32_t rank) {
  const bool is_listed = rank >= 0 && static_cast<std::uint32_t>(rank) < log.members_listed &&
                         static_cast<std::size_t>(rank) < kGroupMembersMax;
  return std::to_string(is_listed ? log.members[static_cast<std::size_t>(rank)] : rank);
}

std::string describe(const FlightLog& log, const Reading& reading) {
  std::string text = word(log, reading.call()) + "(";
  if (reading.type() == FlightCall::kNone) return text + ")";
  text += std::to_string(reading.elements) + " x " + word(log, log.first_type + reading.type());
  if (reading.reduction() != FlightCall::kNone)
    text += ", " + word(log, log.first_reduction + reading.reduction());
  if (reading.is_message()) {
    text += ", rank " + rank_text(log, reading.peer) + ", tag " + std::to_string(reading.tag);
  } else if (reading.peer >= 0) {
    text += ", root " + rank_text(log, reading.peer);
  }
  return text + ")";
}

FlightState state_of(const Reading& reading) {
  const std::uint32_t state = reading.state & ~kMessageFlag;
  const bool is_known = state <= static_cast<std::uint32_t>(FlightState::failed);
  return is_known ? static_cast<FlightState>(state) : FlightState::entered;
}

Flight flight_of(const FlightLog& log, const Reading& reading, Nanoseconds now) {
  Flight flight{.number = reading.number,
                .is_message = reading.is_message(),
                .call = describe(log, reading),
                .bytes = reading.elements * reading.element_bytes(),
                .state = state_of(reading)};
  const Nanoseconds entered(reading.entered);
  flight.entered_ago = std::max(now - entered, Nanoseconds(0));
  // The end is by a clock of large steps, and may seem to lie before the beginning.
  if (flight.state != FlightState::entered)
    flight.ended_ago =
        std::clamp(now - Nanoseconds(reading.ended), Nanoseconds(0), flight.entered_ago);
  return flight;
}

std::vector<Flight> flights_of(const FlightLog& log, Nanoseconds now) {
  std::vector<Reading> readings;
  for (const auto& entry : log.entries) {
    if (const auto reading = read(entry)) readings.push_back(*reading);
  }
  std::sort(readings.begin(), readings.end(),
            [](const Reading& a, const Reading& b) { return a.stamp < b.stamp; });
  std::vector<Flight> flights;
  for (const auto& reading : readings) flights.push_back(flight_of(log, reading, now));
  return flights;
}

GroupState state_of(const FlightLog& log) {
  const std::uint32_t state = log.state.load(std::memory_order_acquire);
  const bool is_known = state <= static_cast<std::uint32_t>(GroupState::left);
  return is_known ? static_cast<GroupState>(state) : GroupState::open;
}

GroupFlights read(const FlightLog& log, Nanoseconds now) {
  GroupFlights group{.name = text_of(log.name),
                     .rank = log.rank,
                     .size = log.size,
                     .state = state_of(log),
                     .entered = log.collectives.load(std::memory_order_acquire),
                     .flights = flights_of(log, now)};
  const auto listed = std::min<std::size_t>(log.members_listed, kGroupMembersMax);
  group.members.assign(log.members.begin(), log.members.begin() + static_cast<long>(listed));
  return group;
}

}  // namespace

WorkerFlights read_flights(const ControlPage& page, int local_rank,
                           FlightRecorder::Clock::time_point now) {
  const FlightArea& area = FlightArea::of(page, local_rank);
  // Groups that are there before those that have ended, and the last of these first. What is sorted
  // by is read once: the worker may go on.
  std::vector<std::tuple<bool, std::int64_t, const FlightLog*>> logs;
  for (const auto& log : area.logs) {
    const std::uint32_t use = log.use.load(std::memory_order_acquire);
    if (FlightLog::is_readable(use))
      logs.emplace_back(use == FlightLog::over, -log.ended.load(), &log);
  }
  std::sort(logs.begin(), logs.end());
  WorkerFlights worker{.unrecorded_groups = area.unrecorded_groups.load()};
  for (const auto& [is_over, ended, log] : logs) {
    GroupFlights group = read(*log, now.time_since_epoch());
    // Meanwhile another group may have taken the place of one that had ended.
    if (is_over && log->use.load() != FlightLog::over) continue;
    const bool is_known =
        std::any_of(worker.groups.begin(), worker.groups.end(),
                    [&](const GroupFlights& other) { return other.name == group.name; });
    if (!is_known) worker.groups.push_back(std::move(group));
  }
  return worker;
}

}  // namespace ddprun::control
