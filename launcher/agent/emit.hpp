// How the agent's parts tell what happens.
#pragma once

#include "launcher/report/event.hpp"
#include <ddprun/log.hpp>

namespace ddprun {

inline void emit(EventSink& events, const Event& event) {
  events.take(event, std::chrono::system_clock::now());
}

/// For parts that speak of themselves; what they say below a warning is not for operators.
inline Log warnings_to(EventSink& events) {
  return [&events](LogLevel level, std::string_view line) {
    if (level >= LogLevel::warn) emit(events, Warning{std::string(line)});
  };
}

}  // namespace ddprun
