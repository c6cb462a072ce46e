// Whole numbers out of JSON that another machine has sent. The library's own conversion makes
// anything of a number that is out of range, and is undefined for large fractions.
#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <utility>

namespace ddprun {

/// Throws nlohmann::json::exception if it is no whole number, or not within T.
template <typename T>
T whole_number(const nlohmann::json& json) {
  const auto is_within = [&] {
    if (json.is_number_unsigned()) return std::in_range<T>(json.get<std::uint64_t>());
    return json.is_number_integer() && std::in_range<T>(json.get<std::int64_t>());
  };
  if (is_within()) return json.get<T>();
  throw nlohmann::json::other_error::create(501, "a number is not whole or out of range", &json);
}

}  // namespace ddprun
