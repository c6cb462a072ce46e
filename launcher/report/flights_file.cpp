#include "launcher/report/flights_file.hpp"

#include "launcher/report/json_lines_sink.hpp"
#include "rendezvous/base/quiet_write.hpp"

#include <nlohmann/json.hpp>

#include <cerrno>
#include <cstring>
#include <fcntl.h>

namespace ddprun {

namespace {

using OrderedJson = nlohmann::ordered_json;
using control::Flight;
using control::FlightState;
using control::GroupFlightRecord;
using control::GroupState;

/// Version of the document. Keys may be added without a new version; existing ones keep their
/// meaning.
constexpr int kVersion = 1;

const char* to_text(FlightState state) {
  switch (state) {
    case FlightState::entered:
      return "entered";
    case FlightState::done:
      return "done";
    case FlightState::failed:
      return "failed";
  }
  return "entered";
}

const char* to_text(GroupState state) {
  switch (state) {
    case GroupState::meeting:
      return "meeting";
    case GroupState::open:
      return "open";
    case GroupState::failed:
      return "failed";
    case GroupState::left:
      return "left";
  }
  return "open";
}

std::string dumped(const OrderedJson& json) {
  return json.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
}

std::string line_of(const Flight& flight, std::chrono::system_clock::time_point when) {
  const auto before = [&](std::chrono::nanoseconds ago) {
    return utc_timestamp(when - std::chrono::duration_cast<std::chrono::microseconds>(ago));
  };
  const bool has_ended = flight.state != FlightState::entered;
  return dumped({{"collective", flight.is_message ? OrderedJson() : OrderedJson(flight.number)},
                 {"call", flight.call},
                 {"bytes", flight.bytes},
                 {"state", to_text(flight.state)},
                 {"entered", before(flight.entered_ago)},
                 {"ended", has_ended ? OrderedJson(before(flight.ended_ago)) : OrderedJson()}});
}

/// Returns the object without its closing brackets; the calls follow, one per line.
std::string heading_of(const GroupFlightRecord& group) {
  const OrderedJson heading = {
      {"name", group.name},
      {"rank", group.rank},
      {"size", group.size},
      {"members", group.members.empty() ? OrderedJson() : OrderedJson(group.members)},
      {"state", to_text(group.state)},
      {"collectives_entered", group.entered},
      {"calls", OrderedJson::array()}};
  const std::string text = dumped(heading);
  return text.substr(0, text.size() - 2);
}

}  // namespace

std::string flights_document(const RankFlights& rank, int attempt,
                             std::chrono::system_clock::time_point when) {
  const OrderedJson heading = {{"version", kVersion},
                               {"time", utc_timestamp(when)},
                               {"attempt", attempt},
                               {"rank", rank.rank},
                               {"unrecorded_groups", rank.worker.unrecorded_groups},
                               {"groups", OrderedJson::array()}};
  std::string text = dumped(heading);
  text.resize(text.size() - 2);
  const char* separator = "\n";
  for (const auto& group : rank.worker.groups) {
    text += separator + heading_of(group);
    const char* between = "\n ";
    for (const auto& flight : group.flights) {
      text += between + line_of(flight, when);
      between = ",\n ";
    }
    text += "]}";
    separator = ",\n";
  }
  return text + "]}\n";
}

Problem write_flights(const HeldPath& file, const std::string& document) {
  const auto fd = file.open_regular(O_WRONLY | O_CREAT | O_TRUNC, 0644);
  const auto written = fd.get() < 0 ? -1 : quiet_write(fd.get(), document.data(), document.size());
  if (written == static_cast<ssize_t>(document.size())) return std::nullopt;
  return file.path().string() + ": " + std::strerror(written < 0 ? errno : ENOSPC);
}

}  // namespace ddprun
