#include "worker_runtime/preflight/pairing.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdio>

namespace ddprun::preflight {

namespace {

/// Returns text such as "12.3 GB/s".
std::string rate_text(double rate, const std::string& unit) {
  constexpr double kGiga = 1e9;
  char text[64];
  std::snprintf(text, sizeof text, "%.3g G", rate / kGiga);
  return text + unit;
}

}  // namespace

/// The circle method of round-robin tournaments: one rank stays, the others rotate by one position
/// each round, and opposite ranks are paired. With an odd number, the rank opposite the dummy
/// pauses.
std::vector<Round> pairings(int ranks) {
  std::vector<Round> rounds;
  const int seats = ranks + ranks % 2;
  for (int round = 0; round < std::min(kPreflightPartnersMax, seats - 1); ++round) {
    const auto at = [&](int seat) { return seat == 0 ? 0 : (seat - 1 + round) % (seats - 1) + 1; };
    Round pairs;
    for (int seat = 0; seat < seats / 2; ++seat) {
      const auto [low, high] = std::minmax({at(seat), at(seats - 1 - seat)});
      if (high < ranks) pairs.emplace_back(low, high);
    }
    rounds.push_back(std::move(pairs));
  }
  return rounds;
}

std::vector<std::string> slow_ranks(std::span<const double> rates, const std::string& what,
                                    const std::string& unit) {
  std::vector<std::string> problems(rates.size());
  std::vector<double> sorted(rates.begin(), rates.end());
  std::sort(sorted.begin(), sorted.end());
  const double median = sorted.empty() ? 0 : sorted[sorted.size() / 2];
  for (std::size_t rank = 0; rank < rates.size(); ++rank) {
    if (rates[rank] > 0 && rates[rank] >= median / 2) continue;
    problems[rank] = what + " " + rate_text(rates[rank], unit) + ", and half of the workers' " +
                     "devices have at least " + rate_text(median, unit);
  }
  return problems;
}

}  // namespace ddprun::preflight
