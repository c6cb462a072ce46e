#include "launcher/report/flights_record.hpp"

#include "launcher/report/whole_number.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>

namespace ddprun {

namespace {

using Json = nlohmann::json;
using control::Flight;
using control::FlightState;
using control::GroupFlightRecord;
using control::GroupState;
using std::chrono::nanoseconds;

/// Data of another node may have any value.
template <typename State>
State state_of(const Json& json, State last) {
  const auto value = whole_number<std::int64_t>(json);
  const bool is_known = value >= 0 && value <= static_cast<std::int64_t>(last);
  return is_known ? static_cast<State>(value) : last;
}

Json to_json(const Flight& flight) {
  return {flight.number,
          flight.is_message,
          flight.call,
          flight.bytes,
          static_cast<int>(flight.state),
          flight.entered_ago.count(),
          flight.ended_ago.count()};
}

/// Returns an age within [0, most], so that differences cannot overflow.
nanoseconds age_of(const Json& json, nanoseconds most) {
  return std::clamp(nanoseconds(whole_number<std::int64_t>(json)), nanoseconds(0), most);
}

Flight flight_of(const Json& json) {
  const nanoseconds entered_ago = age_of(json.at(5), nanoseconds::max());
  return {.number = whole_number<std::uint64_t>(json.at(0)),
          .is_message = json.at(1).get<bool>(),
          .call = json.at(2).get<std::string>(),
          .bytes = whole_number<std::uint64_t>(json.at(3)),
          .state = state_of(json.at(4), FlightState::failed),
          .entered_ago = entered_ago,
          .ended_ago = age_of(json.at(6), entered_ago)};
}

Json to_json(const GroupFlightRecord& group) {
  Json flights = Json::array();
  const auto count = std::min(group.flights.size(), kRecordedFlightsMax);
  for (auto flight = group.flights.end() - static_cast<std::ptrdiff_t>(count);
       flight != group.flights.end(); ++flight) {
    flights.push_back(to_json(*flight));
  }
  return {{"name", group.name},       {"rank", group.rank},
          {"size", group.size},       {"members", group.members},
          {"entered", group.entered}, {"state", static_cast<int>(group.state)},
          {"flights", flights}};
}

GroupFlightRecord group_of(const Json& json) {
  GroupFlightRecord group;
  json.at("name").get_to(group.name);
  group.rank = whole_number<int>(json.at("rank"));
  group.size = whole_number<int>(json.at("size"));
  for (const auto& member : json.at("members")) group.members.push_back(whole_number<int>(member));
  group.entered = whole_number<std::uint64_t>(json.at("entered"));
  group.state = state_of(json.at("state"), GroupState::left);
  for (const auto& flight : json.at("flights")) group.flights.push_back(flight_of(flight));
  return group;
}

std::string to_text(const RankFlights& rank) {
  Json groups = Json::array();
  for (const auto& group : rank.worker.groups) groups.push_back(to_json(group));
  const Json json = {
      {"rank", rank.rank}, {"groups", groups}, {"unrecorded", rank.worker.unrecorded_groups}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

std::string to_flights_record(const std::vector<RankFlights>& ranks) {
  std::string record;
  for (const auto& rank : ranks) {
    const auto text = to_text(rank);
    if (record.size() + text.size() + 2 > kFlightsRecordBytesMax) break;
    record += (record.empty() ? "[" : ",") + text;
  }
  return record.empty() ? record : record + "]";
}

std::vector<RankFlights> from_flights_record(std::string_view record) {
  if (record.size() > kFlightsRecordBytesMax) return {};
  try {
    std::vector<RankFlights> ranks;
    for (const auto& json : Json::parse(record)) {
      RankFlights rank{.rank = whole_number<int>(json.at("rank"))};
      for (const auto& group : json.at("groups")) rank.worker.groups.push_back(group_of(group));
      rank.worker.unrecorded_groups = whole_number<int>(json.at("unrecorded"));
      ranks.push_back(std::move(rank));
    }
    return ranks;
  } catch (const Json::exception&) {
    return {};
  }
}

}  // namespace ddprun
