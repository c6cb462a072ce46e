// The earliest of several optional times. Pure.
#pragma once

#include "rendezvous/membership/settings.hpp"

#include <initializer_list>
#include <optional>

namespace ddprun::membership {

/// Returns the earliest time that is set, or nullopt.
inline std::optional<Time> earliest(std::initializer_list<std::optional<Time>> times) {
  std::optional<Time> first;
  for (const auto& time : times) {
    if (time && (!first || *time < *first)) first = time;
  }
  return first;
}

}  // namespace ddprun::membership
