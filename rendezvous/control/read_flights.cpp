#include "rendezvous/control/flight_log.hpp"
#include "rendezvous/control/flight_recorder.hpp"

#include <algorithm>
#include <cstring>
#include <tuple>
#include <utility>
#include <variant>

namespace ddprun::control {

namespace {

using Nanoseconds = std::chrono::nanoseconds;

// Order of loads before the second load of the stamp or of the count of descriptions.
constexpr auto kBefore = std::memory_order_acquire;

/// Another process has written it, perhaps without an end.
template <std::size_t N>
std::string text_of(const std::array<char, N>& from) {
  std::string text(from.data(), ::strnlen(from.data(), N));
  std::replace_if(
      text.begin(), text.end(), [](unsigned char byte) { return byte < ' ' || byte == 0x7f; }, '?');
  return text;
}

/// A copy of what describes a group: the worker can change the log at any time.
struct GroupHeader {
  std::int32_t rank = 0;
  std::int32_t size = 0;
  std::uint32_t first_type = 0;
  std::uint32_t first_reduction = 0;
  std::uint32_t members_listed = 0;
  std::uint32_t state = 0;
  std::array<char, kGroupNameBytesMax + 1> name{};
  std::array<std::array<char, kFlightNameBytes>, kFlightNamesMax> names{};
  std::array<std::int32_t, kGroupMembersMax> members{};

  explicit GroupHeader(const FlightLog& log)
      : rank(log.rank.load(kBefore)),
        size(log.size.load(kBefore)),
        first_type(log.first_type.load(kBefore)),
        first_reduction(log.first_reduction.load(kBefore)),
        members_listed(log.members_listed.load(kBefore)),
        state(log.state.load(kBefore)),
        name(log.name),
        names(log.names),
        members(log.members) {}

  std::optional<std::string> damage() const {
    if (size < 1 || rank < 0 || rank >= size)
      return "rank " + std::to_string(rank) + " of a group of " + std::to_string(size);
    if (state > static_cast<std::uint32_t>(GroupState::left))
      return "state " + std::to_string(state) + " of a group";
    if (members_listed > kGroupMembersMax || first_type > kFlightNamesMax ||
        first_reduction > kFlightNamesMax)
      return "lists of a group beyond their bounds";
    const auto end = members.begin() + members_listed;
    const auto negative =
        std::find_if(members.begin(), end, [](auto member) { return member < 0; });
    if (negative != end) return "rank " + std::to_string(*negative) + " among a group's members";
    return std::nullopt;
  }

  std::string name_at(std::uint32_t index) const {
    return index < kFlightNamesMax ? text_of(names[index]) : "?";
  }

  /// As all workers call the group's rank.
  std::string rank_text(std::int32_t of_group) const {
    const auto index = static_cast<std::uint32_t>(of_group);
    return std::to_string(index < members_listed ? members[index] : of_group);
  }
};

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

/// Returns nullopt if the entry is empty or was written meanwhile.
std::optional<Reading> read(const FlightEntry& entry) {
  Reading reading{.stamp = entry.stamp.load(kBefore),
                  .number = entry.number.load(kBefore),
                  .elements = entry.elements.load(kBefore),
                  .entered = entry.entered.load(kBefore),
                  .ended = 0,
                  .peer = entry.peer.load(kBefore),
                  .tag = entry.tag.load(kBefore),
                  .kind = entry.kind.load(kBefore),
                  .state = entry.state.load(kBefore)};
  reading.ended = entry.ended.load(kBefore);
  const bool is_whole = reading.stamp != 0 && reading.stamp == entry.stamp.load();
  return is_whole ? std::optional(reading) : std::nullopt;
}

std::string describe(const GroupHeader& header, const Reading& reading) {
  std::string text = header.name_at(reading.call()) + "(";
  if (reading.type() == FlightCall::kNone) return text + ")";
  text +=
      std::to_string(reading.elements) + " x " + header.name_at(header.first_type + reading.type());
  if (reading.reduction() != FlightCall::kNone)
    text += ", " + header.name_at(header.first_reduction + reading.reduction());
  if (reading.is_message()) {
    text += ", rank " + header.rank_text(reading.peer) + ", tag " + std::to_string(reading.tag);
  } else if (reading.peer >= 0) {
    text += ", root " + header.rank_text(reading.peer);
  }
  return text + ")";
}

struct Damage {
  std::string what;
};

FlightState state_of(const Reading& reading) {
  const std::uint32_t state = reading.state & ~kMessageFlag;
  const bool is_known = state <= static_cast<std::uint32_t>(FlightState::failed);
  return is_known ? static_cast<FlightState>(state) : FlightState::entered;
}

Flight flight_of(const GroupHeader& header, const Reading& reading, Nanoseconds now) {
  Flight flight{.number = reading.number,
                .is_message = reading.is_message(),
                .call = describe(header, reading),
                .bytes = reading.elements * reading.element_bytes(),
                .state = state_of(reading)};
  const auto entered = std::clamp(Nanoseconds(reading.entered), Nanoseconds(0), now);
  flight.entered_ago = now - entered;
  // The end is by a clock of large steps, and may seem to lie before the beginning.
  if (flight.state != FlightState::entered)
    flight.ended_ago = now - std::clamp(Nanoseconds(reading.ended), entered, now);
  return flight;
}

std::vector<Flight> flights_of(const FlightLog& log, const GroupHeader& header, Nanoseconds now) {
  std::vector<Reading> readings;
  for (const auto& entry : log.entries) {
    if (const auto reading = read(entry)) readings.push_back(*reading);
  }
  std::sort(readings.begin(), readings.end(),
            [](const Reading& a, const Reading& b) { return a.stamp < b.stamp; });
  std::vector<Flight> flights;
  flights.reserve(readings.size());
  for (const auto& reading : readings) flights.push_back(flight_of(header, reading, now));
  return flights;
}

/// Contents of a group's log; empty if another group has taken the log meanwhile.
using LogContents = std::variant<std::monostate, GroupFlightRecord, Damage>;

LogContents read(const FlightLog& log, Nanoseconds now) {
  const std::uint32_t described = log.described.load(kBefore);
  const std::uint32_t use = log.use.load(kBefore);
  const GroupHeader header(log);
  const auto damage = header.damage();
  GroupFlightRecord group{.entered = log.collectives.load(kBefore)};
  if (!damage) group.flights = flights_of(log, header, now);
  // The texts of the header are not atomic.
  std::atomic_thread_fence(std::memory_order_acquire);
  const bool is_one_group = FlightLog::is_readable(use) && log.described.load() == described;
  if (!is_one_group) return {};
  if (damage) return Damage{*damage};
  group.name = text_of(header.name);
  group.rank = header.rank;
  group.size = header.size;
  group.members.assign(header.members.begin(), header.members.begin() + header.members_listed);
  group.state = static_cast<GroupState>(header.state);
  return group;
}

WorkerFlights damaged(std::string what) {
  return {.unrecorded_groups = 1, .damage = std::move(what)};
}

}  // namespace

CallActivity read_activity(const ControlPage& page, int local_rank) noexcept {
  const FlightArea& area = FlightArea::of(page, local_rank);
  // A worker can write any number. Differences of two of these do not overflow.
  const std::int64_t waited = std::max(area.waited.load(), std::int64_t{0});
  CallActivity activity{.heartbeats = area.heartbeats.load(),
                        .waits = area.waits.load(),
                        .waited = std::chrono::nanoseconds(waited)};
  for (const auto& log : area.logs) {
    if (log.use.load(std::memory_order_acquire) != FlightLog::taken) continue;
    for (const auto& entry : log.entries) {
      const std::uint64_t stamp = entry.stamp.load(std::memory_order_relaxed);
      if (stamp == 0) continue;
      const std::uint32_t state = entry.state.load(std::memory_order_relaxed) & ~kMessageFlag;
      const bool is_in_call = state == static_cast<std::uint32_t>(FlightState::entered);
      activity.calls += 2 * stamp + (is_in_call ? 0 : 1);
      activity.is_in_call = activity.is_in_call || is_in_call;
    }
  }
  return activity;
}

WorkerFlights read_flights(const ControlPage& page, int local_rank,
                           FlightRecorder::Clock::time_point now) {
  const FlightArea& area = FlightArea::of(page, local_rank);
  // Live groups first, then ended ones, latest first. Sort keys are read once, since the worker may
  // change them.
  std::vector<std::tuple<bool, std::int64_t, const FlightLog*>> logs;
  for (const auto& log : area.logs) {
    const std::uint32_t use = log.use.load(std::memory_order_acquire);
    if (use > FlightLog::being_described) return damaged("use " + std::to_string(use));
    if (FlightLog::is_readable(use))
      logs.emplace_back(use == FlightLog::over, log.ended.load(), &log);
  }
  std::sort(logs.begin(), logs.end(), [](const auto& a, const auto& b) {
    return std::pair(std::get<0>(a), std::get<1>(b)) < std::pair(std::get<0>(b), std::get<1>(a));
  });
  WorkerFlights worker{.unrecorded_groups = std::max(area.unrecorded_groups.load(), 0)};
  if (auto damage = page.damage(local_rank)) return damaged(std::move(*damage));
  for (const auto& [is_over, ended, log] : logs) {
    auto contents = read(*log, now.time_since_epoch());
    if (auto* damage = std::get_if<Damage>(&contents)) return damaged(std::move(damage->what));
    auto* group = std::get_if<GroupFlightRecord>(&contents);
    if (group == nullptr) continue;
    const bool is_known =
        std::any_of(worker.groups.begin(), worker.groups.end(),
                    [&](const GroupFlightRecord& other) { return other.name == group->name; });
    if (!is_known) worker.groups.push_back(std::move(*group));
  }
  return worker;
}

}  // namespace ddprun::control
