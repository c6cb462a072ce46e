// Helpers for emitting events from parts of the agent.
#pragma once

#include "launcher/report/event.hpp"
#include <ddprun/log.hpp>

namespace ddprun {

inline void emit(EventSink& events, const Event& event) {
  events.take(event, std::chrono::system_clock::now());
}

/// Returns a log for components that do not use events. Drops lines below the level warn.
inline Log warnings_to(EventSink& events) {
  return [&events](LogLevel level, std::string_view line) {
    if (level >= LogLevel::warn) emit(events, Warning{std::string(line)});
  };
}

/// Like warnings_to(), and returns lines of level info as notes.
inline Log messages_to(EventSink& events) {
  return [&events](LogLevel level, std::string_view line) {
    if (level >= LogLevel::warn) return emit(events, Warning{std::string(line)});
    if (level == LogLevel::info) emit(events, Note{std::string(line)});
  };
}

}  // namespace ddprun
