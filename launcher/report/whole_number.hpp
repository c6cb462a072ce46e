// Parses integers in JSON from other machines. The library's conversion returns arbitrary values
// for numbers out of range, and is undefined for large fractions.
#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <utility>

namespace ddprun {

/// Throws nlohmann::json::exception if the value is not an integer or out of range for T.
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
