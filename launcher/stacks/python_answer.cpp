#include "launcher/stacks/python_answer.hpp"

#include "rendezvous/base/text.hpp"
#include "rendezvous/control/flight_recorder.hpp"

#include <charconv>
#include <chrono>
#include <cstdint>
#include <utility>
#include <vector>

namespace ddprun {

namespace {

using control::Flight;
using control::FlightState;
using control::GroupFlightRecord;

// The lines around the stacks.
constexpr std::string_view kStacks = "\nstacks\n";
constexpr std::string_view kEnd = "\nend\n";

constexpr std::size_t kGroupFields = 6;
constexpr std::size_t kFlightFields = 8;
constexpr std::size_t kCallBytesMax = 200;
constexpr int kRanksMax = 1 << 20;

/// Reads numbers of a line; is_valid() tells whether all were valid.
class Numbers {
 public:
  template <typename T>
  T read(std::string_view text, T most) {
    T value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || value < 0 || value > most)
      is_valid_ = false;
    return value;
  }
  bool is_valid() const { return is_valid_; }

 private:
  bool is_valid_ = true;
};

std::string name_in(const std::string& field, std::size_t bytes_max) {
  auto name = printable(field);
  if (name.size() <= bytes_max) return name;
  const auto is_inside_character = [&name](std::size_t at) {
    return (static_cast<unsigned char>(name[at]) & 0xC0U) == 0x80U;
  };
  while (bytes_max > 0 && is_inside_character(bytes_max)) --bytes_max;
  return name.substr(0, bytes_max);
}

std::optional<GroupFlightRecord> group_in(const std::vector<std::string>& fields) {
  if (fields.size() != kGroupFields) return std::nullopt;
  Numbers numbers;
  GroupFlightRecord group{.name = name_in(fields[5], control::kGroupNameBytesMax),
                          .rank = numbers.read(fields[1], kRanksMax),
                          .size = numbers.read(fields[2], kRanksMax),
                          .entered = numbers.read(fields[3], std::uint64_t{1} << 62)};
  const auto members = fields[4].empty() ? std::vector<std::string>() : split(fields[4], ',');
  if (members.size() > control::kGroupMembersMax) return std::nullopt;
  for (const auto& member : members) group.members.push_back(numbers.read(member, kRanksMax));
  const bool is_sound = numbers.is_valid() && group.rank < group.size;
  return is_sound ? std::optional(std::move(group)) : std::nullopt;
}

std::optional<Flight> flight_in(const std::vector<std::string>& fields) {
  if (fields.size() != kFlightFields) return std::nullopt;
  Numbers numbers;
  const auto flag = [&](const std::string& field) { return numbers.read(field, 1) == 1; };
  const auto time = [&](const std::string& field) {
    return std::chrono::nanoseconds(numbers.read(field, std::int64_t{1} << 62));
  };
  const Flight flight{.number = numbers.read(fields[1], std::uint64_t{1} << 62),
                      .is_message = flag(fields[2]),
                      .call = name_in(fields[7], kCallBytesMax),
                      .bytes = numbers.read(fields[6], std::uint64_t{1} << 62),
                      .state = flag(fields[3]) ? FlightState::done : FlightState::entered,
                      .entered_ago = time(fields[4]),
                      .ended_ago = time(fields[5])};
  const bool is_sound = numbers.is_valid() && flight.ended_ago <= flight.entered_ago;
  return is_sound ? std::optional(flight) : std::nullopt;
}

control::WorkerFlights flights_in(std::string_view text) {
  control::WorkerFlights flights;
  auto& groups = flights.groups;
  bool has_group = false;  // the last line of a group was valid
  for (const auto& line : split(text, '\n')) {
    const auto fields = split(line, '\t');
    if (fields[0] == "unrecorded" && fields.size() == 2) {
      Numbers numbers;
      const int count = numbers.read(fields[1], kRanksMax);
      if (numbers.is_valid()) flights.unrecorded_groups = count;
    } else if (fields[0] == "group") {
      auto group = group_in(fields);
      has_group = group && groups.size() < control::kFlightGroupsMax;
      if (has_group) groups.push_back(std::move(*group));
    } else if (fields[0] == "flight" && has_group) {
      auto& calls = groups.back().flights;
      auto flight = flight_in(fields);
      if (flight && calls.size() < control::kFlightsMax) calls.push_back(std::move(*flight));
    }
  }
  return flights;
}

}  // namespace

std::optional<PythonAnswer> parse_python_answer(std::string_view text) {
  const std::string lines = "\n" + std::string(text);  // each line has a preceding one
  const auto stacks = lines.find(kStacks);
  if (stacks == std::string::npos || !lines.ends_with(kEnd)) return std::nullopt;
  const auto begin = stacks + kStacks.size();
  const auto end = lines.size() - kEnd.size();
  return PythonAnswer{.stacks = begin < end ? lines.substr(begin, end - begin) : "",
                      .flights = flights_in(std::string_view(lines).substr(0, stacks))};
}

}  // namespace ddprun
