#include "rendezvous/membership/bounds.hpp"

#include "rendezvous/membership/codec.hpp"
#include "rendezvous/membership/settings.hpp"

#include <algorithm>
#include <cstddef>
#include <string_view>

namespace ddprun::membership {

namespace {

// Fixed-size fields of a failure and of a node in a round.
constexpr std::size_t kFailureFieldsBytes = 4 + 1 + 8 + 2 * 4 + 1;
constexpr std::size_t kPlaceFieldsBytes = 4 * 4 + kAddressBytesMax + 1;
// An outcome's reason contains a node's reason.
static_assert(2 * kReasonBytesMax + kExitBytesMax + kAllFlightsBytesMax +
                  kFailuresMax * (kFailureFieldsBytes + kDescriptionBytesMax + kNameBytesMax) <=
              kMessageBytesMax / 2);
static_assert(kRoundNodesMax * (kPlaceFieldsBytes + 2 * kNameBytesMax) + 100 <= kMessageBytesMax);

void bound(WorkersFailing& failing) {
  cut(failing.reason, kReasonBytesMax);
}

/// Keeps the last calls of each group, and the first ranks that fit into kFlightsBytesMax.
void bound_flights(std::vector<control::RankFlights>& flights) {
  std::size_t bytes = 0;
  auto rank = flights.begin();
  for (; rank != flights.end(); ++rank) {
    for (auto& group : rank->worker.groups) {
      const auto surplus = std::max(group.flights.size(), kGroupCallsMax) - kGroupCallsMax;
      group.flights.erase(group.flights.begin(),
                          group.flights.begin() + static_cast<std::ptrdiff_t>(surplus));
    }
    bytes += encoded_bytes(*rank);
    if (bytes > kFlightsBytesMax) break;
  }
  flights.erase(rank, flights.end());
}

void bound(WorkersEnded& ended) {
  cut(ended.not_started, kReasonBytesMax);
  if (ended.no_restart) cut(*ended.no_restart, kReasonBytesMax);
  bound_failures(ended.failures);
  ended.early_exits.resize(std::min(ended.early_exits.size(), kEarlyExitsMax));
  bound_failures(ended.early_exits);
  bound_flights(ended.flights);
}

void bound(HangNotice& hang) {
  hang.ranks.resize(std::min(hang.ranks.size(), kHungRanksMax));
  for (auto& rank : hang.ranks) cut(rank.doing, kDescriptionBytesMax);
  hang.connections.resize(std::min(hang.connections.size(), kHungRanksMax));
  for (auto& connection : hang.connections) cut(connection.peer, kDescriptionBytesMax);
}

void bound(SlowRankNotice& slow) {
  cut(slow.doing, kDescriptionBytesMax);
  cut(slow.peer, kNameBytesMax);
}

/// Keeps the first stacks that fit into kStacksBytesMax.
void bound(StacksNotice& notice) {
  std::size_t bytes = 0;
  auto taken = notice.stacks.begin();
  for (; taken != notice.stacks.end(); ++taken) {
    for (auto& problem : taken->problems) cut(problem, kDescriptionBytesMax);
    for (auto& line : taken->lines) cut(line, kStackLineBytesMax);
    cut(taken->reason, kDescriptionBytesMax);
    bytes += encoded_bytes(*taken);
    if (bytes > kStacksBytesMax) break;
  }
  std::size_t omitted = 0;
  for (auto one = taken; one != notice.stacks.end(); ++one) omitted += 1 + one->same.size();
  notice.stacks.erase(taken, notice.stacks.end());
  if (omitted > 0 && !notice.stacks.empty()) {
    notice.stacks.back().problems.push_back("the stacks of " + std::to_string(omitted) +
                                            " more ranks of its node are too long to be sent");
  }
}

void bound(Leave& leave) {
  cut(leave.reason, kReasonBytesMax);
}

/// Joins with too long texts are refused instead.
void bound(Join&) {}
void bound(Heartbeat&) {}
/// A message with too many indices is malformed.
void bound(Probed&) {}

}  // namespace

void cut(std::string& text, std::size_t bytes_max) {
  constexpr std::string_view kRest = "...";
  if (text.size() <= bytes_max) return;
  auto end = bytes_max - kRest.size();
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  text.resize(end);
  text += kRest;
}

NodeMessage within_bounds(NodeMessage message) {
  std::visit([](auto& value) { bound(value); }, message);
  return message;
}

void bound_failures(std::vector<Failure>& failures) {
  failures.resize(std::min(failures.size(), kFailuresMax));
  std::size_t exit_bytes = 0;
  for (auto& failure : failures) {
    cut(failure.description, kDescriptionBytesMax);
    cut(failure.node, kNameBytesMax);
    if (!failure.exit) continue;
    const auto bytes = encoded_bytes(*failure.exit);
    if (exit_bytes + bytes > kExitBytesMax) {
      failure.exit.reset();
    } else {
      exit_bytes += bytes;
    }
  }
}

}  // namespace ddprun::membership
