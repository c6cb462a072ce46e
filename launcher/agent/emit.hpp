// Helpers with which the agent's parts emit events.
#pragma once

#include "launcher/report/event.hpp"
#include <ddprun/log.hpp>

namespace ddprun {

inline void emit(EventSink& events, const Event& event) {
  events.take(event, std::chrono::system_clock::now());
}

/// Returns a log for components that do not know events. Lines below warn are dropped.
inline Log warnings_to(EventSink& events) {
  return [&events](LogLevel level, std::string_view line) {
    if (level >= LogLevel::warn) emit(events, Warning{std::string(line)});
  };
}

}  // namespace ddprun
