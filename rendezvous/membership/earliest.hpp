// Which of several moments comes first. Pure.
#pragma once

#include "rendezvous/membership/settings.hpp"

#include <initializer_list>
#include <optional>

namespace ddprun::membership {

/// The earliest of those that are set.
inline std::optional<Time> earliest(std::initializer_list<std::optional<Time>> times) {
  std::optional<Time> first;
  for (const auto& time : times) {
    if (time && (!first || *time < *first)) first = time;
  }
  return first;
}

}  // namespace ddprun::membership
