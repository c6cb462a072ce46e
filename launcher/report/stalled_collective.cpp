#include "launcher/report/stalled_collective.hpp"

#include "launcher/report/event_text.hpp"

#include <algorithm>
#include <cstdio>
#include <map>
#include <optional>
#include <set>

namespace ddprun {

namespace {

using control::Flight;
using control::FlightState;
using control::GroupFlightRecord;
using control::GroupState;

// Limits the report when a collective error fails a thousand ranks at once.
constexpr std::size_t kMissingShownMax = 8;

/// A rank and its records of the group; null if it has none.
struct Member {
  int rank = 0;
  const GroupFlightRecord* flights = nullptr;

  bool is_meeting() const { return flights != nullptr && flights->state == GroupState::meeting; }
  std::uint64_t entered() const { return flights == nullptr ? 0 : flights->entered; }
  const Flight* last() const {
    return flights == nullptr || flights->flights.empty() ? nullptr : &flights->flights.back();
  }
  /// Returns the call in which the rank is, or was when it failed; null if none.
  const Flight* current() const {
    const Flight* const flight = last();
    return flight == nullptr || flight->state == FlightState::done ? nullptr : flight;
  }
  const Flight* find(std::uint64_t number) const {
    if (flights == nullptr) return nullptr;
    const auto& all = flights->flights;
    const auto found = std::find_if(all.rbegin(), all.rend(), [&](const Flight& flight) {
      return !flight.is_message && flight.number == number;
    });
    return found == all.rend() ? nullptr : &*found;
  }
};

struct Members {
  std::vector<Member> known{};
  std::vector<int> unknown{};
};

double seconds(std::chrono::nanoseconds time) {
  return std::chrono::duration<double>(time).count();
}

/// Returns the duration of a call, so far if it has not ended.
double waited(const Flight& flight) {
  return seconds(flight.entered_ago - flight.ended_ago);
}

std::string tenths_text(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f s", value);
  return text;
}

std::string bytes_text(std::uint64_t bytes) {
  constexpr double kKibi = 1024;
  const char* unit = "bytes";
  auto value = static_cast<double>(bytes);
  for (const char* larger : {"KiB", "MiB", "GiB"}) {
    if (value < kKibi) break;
    value /= kKibi;
    unit = larger;
  }
  char text[48];
  std::snprintf(text, sizeof text, bytes < 1024 ? "%.0f %s" : "%.1f %s", value, unit);
  return text;
}

std::string call_text(const std::string& call, std::uint64_t bytes) {
  return bytes == 0 ? call : call + " of " + bytes_text(bytes);
}

/// Returns the names of the groups, in the order of the first rank that has them.
std::vector<std::string> group_names(const std::vector<RankFlights>& ranks) {
  std::vector<std::string> names;
  for (const auto& rank : ranks) {
    for (const auto& group : rank.worker.groups) {
      if (std::find(names.begin(), names.end(), group.name) == names.end())
        names.push_back(group.name);
    }
  }
  return names;
}

const GroupFlightRecord* find_group(const RankFlights& rank, const std::string& name) {
  const auto& groups = rank.worker.groups;
  const auto found =
      std::find_if(groups.begin(), groups.end(),
                   [&](const GroupFlightRecord& group) { return group.name == name; });
  return found == groups.end() ? nullptr : &*found;
}

const GroupFlightRecord& any_of_group(const std::vector<RankFlights>& ranks,
                                      const std::string& name) {
  for (const auto& rank : ranks) {
    if (const GroupFlightRecord* const flights = find_group(rank, name)) return *flights;
  }
  static const GroupFlightRecord nothing;
  return nothing;
}

/// Returns true if a rank without a record of the group is nevertheless a member.
bool belongs_to(const GroupFlightRecord& group, int rank, std::size_t ranks) {
  const auto& listed = group.members;
  if (!listed.empty()) return std::find(listed.begin(), listed.end(), rank) != listed.end();
  // The members of large groups are not recorded.
  return group.size >= 0 && static_cast<std::size_t>(group.size) >= ranks;
}

/// Returns the ranks that have created the group, and those that are expected to.
Members members_of(const std::vector<RankFlights>& ranks, const std::string& name) {
  const GroupFlightRecord& any = any_of_group(ranks, name);
  Members members;
  for (const auto& rank : ranks) {
    const GroupFlightRecord* const flights = find_group(rank, name);
    if (flights == nullptr && !belongs_to(any, rank.rank, ranks.size())) continue;
    if (flights == nullptr && rank.worker.unrecorded_groups > 0) {
      members.unknown.push_back(rank.rank);
    } else {
      members.known.push_back({rank.rank, flights});
    }
  }
  return members;
}

std::string doing(const Member& member) {
  if (member.flights == nullptr) return "has not made the group";
  if (member.is_meeting()) return "waits for the others to join";
  const Flight* const last = member.last();
  if (member.flights->state == GroupState::left) return "has left the group";
  if (last == nullptr) return "has not called anything";
  const auto what = call_text(last->call, last->bytes);
  if (last->state == FlightState::done)
    return "its last was " + what + ", " + tenths_text(seconds(last->ended_ago)) + " earlier";
  return (last->is_message ? "is in " : "is in an earlier one, ") + what + ", for " +
         tenths_text(waited(*last));
}

std::optional<StalledCollective> find_meeting(const std::string& name, const Members& members) {
  StalledCollective stalled{.group = name, .is_meeting = true, .unknown = members.unknown};
  for (const auto& member : members.known) {
    if (member.is_meeting()) {
      stalled.waiting.push_back(member.rank);
    } else if (member.flights == nullptr) {
      stalled.missing.push_back({member.rank, doing(member)});
    }
  }
  return stalled.waiting.empty() ? std::nullopt : std::optional(stalled);
}

void add_call(StalledCollective& stalled, const Flight& flight, int rank) {
  auto& calls = stalled.calls;
  const auto same = std::find_if(calls.begin(), calls.end(), [&](const CallOfRanks& other) {
    return other.call == flight.call;
  });
  if (same == calls.end()) {
    calls.push_back({flight.call, flight.bytes, {rank}});
  } else {
    same->ranks.push_back(rank);
  }
}

/// Returns the number of the earliest collective with ranks in it.
std::optional<std::uint64_t> earliest(const Members& members) {
  std::optional<std::uint64_t> number;
  for (const auto& member : members.known) {
    const Flight* const current = member.current();
    if (current == nullptr || current->is_message) continue;
    number = std::min(number.value_or(current->number), current->number);
  }
  return number;
}

void add_message(StalledCollective& stalled, const Member& member) {
  const Flight* const current = member.current();
  if (current == nullptr || !current->is_message) return;
  stalled.messaging.push_back({member.rank, doing(member)});
  stalled.waited_seconds = std::max(stalled.waited_seconds, waited(*current));
}

std::optional<StalledCollective> find_collective(const std::string& name, const Members& members) {
  const auto number = earliest(members);
  StalledCollective stalled{
      .group = name, .number = number.value_or(0), .unknown = members.unknown};
  for (const auto& member : members.known) {
    if (!number) {
      add_message(stalled, member);
      continue;
    }
    if (member.entered() <= *number) {
      stalled.missing.push_back({member.rank, doing(member)});
      continue;
    }
    const Flight* const flight = member.find(*number);
    if (flight != nullptr) add_call(stalled, *flight, member.rank);
    if (flight == nullptr || flight->state == FlightState::done) {
      stalled.through.push_back(member.rank);
    } else {
      stalled.waiting.push_back(member.rank);
      stalled.waited_seconds = std::max(stalled.waited_seconds, waited(*flight));
    }
  }
  const bool is_any = !stalled.waiting.empty() || !stalled.messaging.empty();
  return is_any ? std::optional(stalled) : std::nullopt;
}

std::vector<int> ranks_of(const std::vector<MissingRank>& missing) {
  std::vector<int> ranks;
  for (const auto& one : missing) ranks.push_back(one.rank);
  return ranks;
}

std::string plural(const std::vector<int>& ranks, const char* one, const char* many) {
  return ranks_phrase(ranks) + (ranks.size() == 1 ? one : many);
}

std::string through_text(const StalledCollective& stalled) {
  if (stalled.through.empty()) return {};
  return "; " + plural(stalled.through, " has", " have") + " completed it";
}

/// Returns an empty text for a wait that would round to 0.0 s.
std::string duration_text(const StalledCollective& stalled) {
  constexpr double kReportedSecondsMin = 0.05;
  if (stalled.waited_seconds < kReportedSecondsMin) return {};
  return ", for up to " + tenths_text(stalled.waited_seconds);
}

std::string wait_text(const StalledCollective& stalled) {
  return plural(stalled.waiting, " waits", " wait") + " in it" + duration_text(stalled);
}

std::string disagreement(const StalledCollective& stalled) {
  std::string text;
  for (const auto& [call, bytes, ranks] : stalled.calls) {
    text +=
        (text.empty() ? "" : " but ") + plural(ranks, " calls ", " call ") + call_text(call, bytes);
  }
  return text;
}

}  // namespace

std::vector<StalledCollective> find_stalled_collectives(const std::vector<RankFlights>& ranks) {
  std::vector<StalledCollective> found;
  for (const auto& name : group_names(ranks)) {
    const Members members = members_of(ranks, name);
    auto stalled = find_meeting(name, members);
    if (!stalled) stalled = find_collective(name, members);
    if (stalled) found.push_back(std::move(*stalled));
  }
  return found;
}

std::vector<int> late_ranks(const std::vector<StalledCollective>& stalled) {
  std::set<int> late;
  for (const auto& one : stalled) {
    for (const auto& missing : one.missing) late.insert(missing.rank);
  }
  return {late.begin(), late.end()};
}

std::string place_of(const StalledCollective& stalled) {
  const std::string group = "group \"" + stalled.group + "\"";
  if (stalled.is_meeting) return group;
  const std::string place = "collective " + std::to_string(stalled.number) + " of " + group;
  // If ranks disagree, the calls are described below.
  if (stalled.calls.size() != 1) return place;
  return place + ", " + call_text(stalled.calls[0].call, stalled.calls[0].bytes);
}

std::string headline(const StalledCollective& stalled) {
  const std::string group = "group \"" + stalled.group + "\"";
  const auto missing = ranks_of(stalled.missing);
  if (stalled.is_meeting) {
    const auto who =
        plural(stalled.waiting, " waits", " wait") + " for the others to join " + group;
    return missing.empty() ? who
                           : plural(missing, " has", " have") + " not made " + group + "; " + who;
  }
  if (stalled.calls.empty()) {
    const auto senders = ranks_of(stalled.messaging);
    return plural(senders, " waits", " wait") + " for messages in " + group +
           duration_text(stalled);
  }
  const std::string what = place_of(stalled);
  if (stalled.calls.size() > 1) return "in " + what + " " + disagreement(stalled);
  if (missing.empty()) {
    return plural(stalled.waiting, " is in ", " are in ") + what + duration_text(stalled) +
           through_text(stalled);
  }
  return plural(missing, " has", " have") + " not entered " + what + "; " + wait_text(stalled) +
         through_text(stalled);
}

std::vector<std::string> describe(const StalledCollective& stalled) {
  std::vector<std::string> lines = {headline(stalled)};
  const auto add = [&lines](const std::vector<MissingRank>& ranks) {
    const auto shown = std::min(ranks.size(), kMissingShownMax);
    for (std::size_t i = 0; i < shown; ++i)
      lines.push_back("rank " + std::to_string(ranks[i].rank) + ": " + ranks[i].doing);
    if (shown < ranks.size())
      lines.push_back("and " + std::to_string(ranks.size() - shown) + " more");
  };
  if (!stalled.is_meeting) add(stalled.missing);
  add(stalled.messaging);
  if (!stalled.unknown.empty()) {
    lines.push_back(plural(stalled.unknown, " has", " have") +
                    " more groups than are recorded: what became of this one there is unknown");
  }
  return lines;
}

}  // namespace ddprun
