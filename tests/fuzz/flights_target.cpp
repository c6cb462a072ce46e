#include "tests/fuzz/flights_target.hpp"

#include "launcher/report/stalled_collective.hpp"
#include "rendezvous/membership/bounds.hpp"
#include "rendezvous/membership/codec.hpp"
#include "tests/fuzz/promise.hpp"

#include <utility>
#include <variant>

namespace ddprun::fuzz {

using namespace membership;

void run_flights(std::span<const std::uint8_t> input) {
  MessageReader<NodeMessage> reader;
  reader.feed({reinterpret_cast<const char*>(input.data()), input.size()});
  while (auto message = reader.next()) {
    const auto bounded = within_bounds(std::move(*message));
    const auto* ended = std::get_if<WorkersEnded>(&bounded);
    if (ended == nullptr) continue;
    for (const auto& rank : ended->flights) {
      for (const auto& group : rank.worker.groups)
        require(group.flights.size() <= kGroupCallsMax, "calls are bounded");
    }
    for (const auto& stalled : find_stalled_collectives(ended->flights))
      require(!describe(stalled).front().empty(), "a stalled collective has a description");
  }
}

}  // namespace ddprun::fuzz
