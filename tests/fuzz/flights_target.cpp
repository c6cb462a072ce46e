#include "tests/fuzz/flights_target.hpp"

#include "launcher/report/flights_record.hpp"
#include "tests/fuzz/promise.hpp"

#include <string>
#include <vector>

namespace ddprun::fuzz {

void run_flights(std::span<const std::uint8_t> input) {
  const auto ranks =
      from_flights_record({reinterpret_cast<const char*>(input.data()), input.size()});
  for (const auto& stalled : find_stalled_collectives(ranks))
    require(!describe(stalled).front().empty(), "there is something to say of it");
  // Of each group the last calls are written; what is not UTF-8 has become so.
  const auto once = from_flights_record(to_flights_record(ranks));
  require(from_flights_record(to_flights_record(once)) == once, "a record means one thing");
  require(once.size() == ranks.size(), "no rank is lost");
}

}  // namespace ddprun::fuzz
