#include "launcher/process/stop_sequence.hpp"

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <utility>

namespace ddprun {

namespace {

using namespace std::chrono_literals;

std::string still_running_after(std::chrono::duration<double> grace) {
  std::array<char, 80> text{};
  std::snprintf(text.data(), text.size(), "still running %.1f s after the request to stop",
                grace.count());
  return text.data();
}

}  // namespace

bool StopSequence::takes_stacks_first() const {
  return stacks_ == StacksWhen::stop || (stacks_ == StacksWhen::kill && first_stacks_);
}

StopSequence::Steps StopSequence::request(Time now, int signal, std::chrono::milliseconds grace) {
  if (has_killed()) {
    // Descendants may be left.
    if (grace > 0ms || std::exchange(has_killed_all_, true)) return {};
    return {Kill{"no grace period"}};
  }
  if (grace > 0ms && phase_ == Phase::stacks_before_signal) {
    grace_ = std::min(grace_, grace);
    return {};
  }
  if (grace <= 0ms || !expects_stacks_before_signal()) return send_signal(now, signal, grace);
  phase_ = Phase::stacks_before_signal;
  signal_ = signal;
  grace_ = grace;
  auto scope = first_stacks_.value_or(StackScope());
  if (stacks_ == StacksWhen::stop) scope.ranks.reset();
  return {TakeStacks{{.reason = "before they are asked to stop",
                      .next_signal = signal,
                      .scope = std::move(scope)}}};
}

StopSequence::Steps StopSequence::stacks_taken(Time now) {
  if (phase_ == Phase::stacks_before_signal) return send_signal(now, signal_, grace_);
  if (phase_ == Phase::stacks_before_kill) return {kill(now, grace_)};
  return {};
}

StopSequence::Steps StopSequence::send_signal(Time now, int signal,
                                              std::chrono::milliseconds grace) {
  Steps steps{Signal{signal}};
  if (grace <= 0ms) {
    steps.emplace_back(kill(now, grace));
  } else if (!has_signalled() || (phase_ == Phase::grace_period && now + grace < *deadline_)) {
    phase_ = Phase::grace_period;
    grace_ = grace;
    deadline_ = now + grace;
  }
  return steps;
}

void StopSequence::only_killed_left(Time now) {
  if (!has_signalled() || has_killed()) return;
  phase_ = Phase::killed;
  deadline_ = now + limits_.warning_after;
}

StopSequence::Steps StopSequence::advance(Time now, bool are_stuck) {
  if (!deadline_ || now < *deadline_) return {};
  deadline_.reset();
  if (phase_ == Phase::grace_period) {
    if (stacks_ == StacksWhen::never) return {kill(now, grace_)};
    phase_ = Phase::stacks_before_kill;
    return {TakeStacks{{.reason = still_running_after(grace_), .next_signal = SIGKILL}}};
  }
  if (phase_ == Phase::killed && !are_stuck) {
    phase_ = Phase::warned;
    deadline_ = now + limits_.abandoned_after;
    return {Warn{}};
  }
  phase_ = Phase::abandoned;
  return {Abandon{}};
}

StopSequence::Step StopSequence::kill(Time now, std::chrono::milliseconds grace) {
  phase_ = Phase::killed;
  has_killed_all_ = true;
  deadline_ = now + limits_.warning_after;
  return Kill{grace <= 0ms ? "no grace period" : still_running_after(grace)};
}

void StopSequence::close() {
  phase_ = Phase::abandoned;
  has_killed_all_ = true;
  deadline_.reset();
}

}  // namespace ddprun
