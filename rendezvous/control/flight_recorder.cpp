#include "rendezvous/control/flight_recorder.hpp"

#include "rendezvous/control/flight_log.hpp"

#include <algorithm>
#include <cstring>
#include <ctime>
#include <string_view>

namespace ddprun::control {

namespace {

std::uint32_t pack(const FlightCall& call) {
  return std::uint32_t{call.call} | std::uint32_t{call.type} << 8 |
         std::uint32_t{call.element_bytes} << 16 | std::uint32_t{call.reduction} << 24;
}

std::int64_t nanoseconds_of(FlightRecorder::Clock::time_point time) {
  return std::chrono::nanoseconds(time.time_since_epoch()).count();
}

template <std::size_t N>
void copy_text(std::array<char, N>& to, std::string_view from) {
  const std::size_t length = std::min(from.size(), N - 1);
  std::memcpy(to.data(), from.data(), length);
  to[length] = '\0';
}

/// Returns an unused log, or that of the group that ended first; null if all are in use.
FlightLog* take_log(FlightArea& area) {
  std::array<std::pair<std::int64_t, FlightLog*>, kFlightGroupsMax> by_end{};
  for (std::size_t i = 0; i < kFlightGroupsMax; ++i) {
    FlightLog& log = area.logs[i];
    if (log.take(FlightLog::free)) return &log;
    by_end[i] = {log.ended.load(), &log};
  }
  std::sort(by_end.begin(), by_end.end());
  for (const auto& [ended, log] : by_end) {
    if (log->take(FlightLog::over)) return log;
  }
  return nullptr;
}

/// Returns the number of the first of them.
std::uint32_t put_names(FlightLog& log, std::size_t& next, std::span<const char* const> names) {
  const auto first = static_cast<std::uint32_t>(next);
  for (const char* name : names) {
    if (next < kFlightNamesMax) copy_text(log.names[next++], name);
  }
  return first;
}

void describe(FlightLog& log, const FlightGroup& group, const FlightNames& names) {
  constexpr auto after = std::memory_order_release;  // the count of descriptions
  log.described.fetch_add(1);
  // The texts below are not atomic.
  std::atomic_thread_fence(std::memory_order_release);
  for (auto& entry : log.entries) entry.stamp.store(0, std::memory_order_relaxed);
  log.collectives.store(0, std::memory_order_relaxed);
  copy_text(log.name, group.name);
  log.rank.store(group.rank, after);
  log.size.store(group.size, after);
  const bool are_listed = group.members.size() <= kGroupMembersMax;
  const std::size_t listed = are_listed ? group.members.size() : 0;
  log.members_listed.store(static_cast<std::uint32_t>(listed), after);
  std::copy_n(group.members.begin(), listed, log.members.begin());
  std::size_t next = 0;
  put_names(log, next, names.calls);
  log.first_type.store(put_names(log, next, names.types), after);
  log.first_reduction.store(put_names(log, next, names.reductions), after);
  log.state.store(static_cast<std::uint32_t>(GroupState::meeting), std::memory_order_release);
}

}  // namespace

std::chrono::nanoseconds tick_time() noexcept {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

std::size_t flight_area_bytes() noexcept {
  return sizeof(FlightArea);
}

std::optional<FlightRecorder> FlightRecorder::begin(ControlPage page, int local_rank,
                                                    const FlightGroup& group,
                                                    const FlightNames& names) {
  FlightArea& area = FlightArea::of(page, local_rank);
  FlightLog* const log = take_log(area);
  if (log == nullptr) {
    area.unrecorded_groups.fetch_add(1);
    return std::nullopt;
  }
  describe(*log, group, names);
  log->use.store(FlightLog::taken, std::memory_order_release);
  // It may wait for a worker that has ended, which only the agent can know.
  page.wake();
  return FlightRecorder(std::move(page), &area, log);
}

FlightRecorder::FlightRecorder(FlightRecorder&& other) noexcept
    : page_(std::move(other.page_)),
      area_(std::exchange(other.area_, nullptr)),
      log_(std::exchange(other.log_, nullptr)),
      calls_(other.calls_),
      collectives_(other.collectives_) {}

FlightRecorder& FlightRecorder::operator=(FlightRecorder&& other) noexcept {
  std::swap(page_, other.page_);
  std::swap(area_, other.area_);
  std::swap(log_, other.log_);
  std::swap(calls_, other.calls_);
  std::swap(collectives_, other.collectives_);
  return *this;
}

FlightRecorder::~FlightRecorder() {
  if (log_ == nullptr) return;
  log_->ended.store(nanoseconds_of(Clock::now()));
  log_->use.store(FlightLog::over);
}

std::uint64_t FlightRecorder::enter(const FlightCall& call, Clock::time_point now) noexcept {
  FlightEntry& entry = log_->entries[calls_ % kFlightsMax];
  constexpr auto after = std::memory_order_release;  // what was written before, that is, the stamp
  const auto state = static_cast<std::uint32_t>(FlightState::entered);
  entry.stamp.store(0, std::memory_order_relaxed);
  entry.number.store(collectives_, after);
  entry.elements.store(call.elements, after);
  entry.entered.store(nanoseconds_of(now), after);
  entry.peer.store(call.peer, after);
  entry.tag.store(call.tag, after);
  entry.kind.store(pack(call), after);
  entry.state.store(call.is_message ? state | kMessageFlag : state, after);
  entry.stamp.store(++calls_, after);
  if (!call.is_message) log_->collectives.store(++collectives_, after);
  return calls_ - 1;
}

void FlightRecorder::end(std::uint64_t number, FlightState state) noexcept {
  if (calls_ - number > kFlightsMax) return;
  FlightEntry& entry = log_->entries[number % kFlightsMax];
  const std::uint32_t flag = entry.state.load(std::memory_order_relaxed) & kMessageFlag;
  entry.ended.store(tick_time().count(), std::memory_order_relaxed);
  entry.state.store(static_cast<std::uint32_t>(state) | flag, std::memory_order_release);
}

void FlightRecorder::note(GroupState state) noexcept {
  log_->state.store(static_cast<std::uint32_t>(state), std::memory_order_release);
}

void FlightRecorder::add_wait(std::chrono::nanoseconds time) noexcept {
  area_->waits.fetch_add(1, std::memory_order_relaxed);
  if (time.count() != 0) area_->waited.fetch_add(time.count(), std::memory_order_relaxed);
}

}  // namespace ddprun::control
