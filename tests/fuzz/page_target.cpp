#include "tests/fuzz/page_target.hpp"

#include "launcher/report/stalled_collective.hpp"
#include "rendezvous/control/flight_log.hpp"
#include "rendezvous/membership/codec.hpp"
#include "tests/fuzz/promise.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <unistd.h>
#include <vector>

namespace ddprun::fuzz {

namespace {

using namespace control;

constexpr int kWorkers = 2;
constexpr std::array kCalls = {"all_reduce", "send"};
constexpr std::array kTypes = {"float32"};
constexpr std::array kReductions = {"sum"};

FlightRecorder begin(const ControlPage& page, int worker, const char* name) {
  return *FlightRecorder::begin(ControlPage::attach_again(page.fd(), worker), worker,
                                {.name = name, .rank = worker, .size = kWorkers, .members = {0, 1}},
                                {kCalls, kTypes, kReductions});
}

bool is_printable(const std::string& text) {
  return std::none_of(text.begin(), text.end(),
                      [](unsigned char byte) { return byte < ' ' || byte == 0x7f; });
}

void check(const GroupFlightRecord& group) {
  require(group.size >= 1 && group.rank >= 0 && group.rank < group.size,
          "the rank is in the group");
  require(group.members.size() <= kGroupMembersMax, "members are bounded");
  require(group.flights.size() <= kFlightsMax, "calls are bounded");
  require(is_printable(group.name), "names are printable");
  for (const auto& flight : group.flights) {
    require(is_printable(flight.call), "calls are printable");
    require(flight.ended_ago.count() >= 0 && flight.ended_ago <= flight.entered_ago,
            "ages are in order");
  }
}

void look(const ControlPage& page) {
  std::vector<RankFlights> ranks;
  for (int worker = 0; worker < kWorkers; ++worker) {
    ranks.push_back({worker, read_flights(page, worker, FlightRecorder::Clock::now())});
    const auto& flights = ranks.back().worker;
    require(flights.groups.size() <= kFlightGroupsMax, "groups are bounded");
    require(flights.unrecorded_groups >= 0, "counts are not negative");
    require(!flights.damage || flights.groups.empty(), "a damaged record has no groups");
    for (const auto& group : flights.groups) check(group);
  }
  for (const auto& stalled : find_stalled_collectives(ranks))
    require(!describe(stalled).front().empty(), "a stalled collective has a description");
  std::string bytes;
  append_message(bytes, membership::NodeMessage(membership::WorkersEnded{.flights = ranks}));
  membership::MessageReader<membership::NodeMessage> reader;
  reader.feed(bytes);
  require(reader.next().has_value(), "a record can be sent to other nodes");
}

}  // namespace

void run_page(std::span<const std::uint8_t> input) {
  static_assert(sizeof(FlightLog) < 1 << 17);
  const auto page = ControlPage::create(kWorkers);
  std::vector<FlightRecorder> recorders;
  for (int worker = 0; worker < kWorkers; ++worker) {
    recorders.push_back(begin(page, worker, "default"));
    recorders.back().enter({.call = 0, .type = 0, .element_bytes = 4, .reduction = 0},
                           FlightRecorder::Clock::now());
  }
  while (input.size() >= 10) {
    // Beyond the logs: the slot of the worker. In a log: the description of its group, its first
    // entries.
    const std::size_t log = input[0] % (kFlightGroupsMax + 1);
    const std::size_t place = input[1] * std::size_t{8};
    auto& area = FlightArea::of(page, 0);
    void* const to = log < kFlightGroupsMax ? reinterpret_cast<std::byte*>(&area.logs[log]) + place
                                            : area.slot.data() + place % (area.slot.size() - 7);
    std::memcpy(to, input.data() + 2, 8);
    input = input.subspan(10);
    require(::ftruncate(page.fd(), input.size()) != 0, "the page keeps its size");
    look(page);
  }
}

}  // namespace ddprun::fuzz
