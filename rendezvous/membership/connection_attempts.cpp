#include "rendezvous/membership/connection_attempts.hpp"

#include <algorithm>
#include <utility>

namespace ddprun::membership {

namespace {

// Agents may start in any order, so the first attempts often fail; start with a short pause.
constexpr auto kFirstPause = std::chrono::milliseconds(50);
constexpr auto kLongestPause = std::chrono::milliseconds(1000);

/// Time limit of retries after unproven refusals: another program may hold the port temporarily,
/// but usually the secret differs.
constexpr auto kDoubtLimit = std::chrono::seconds(30);

/// Time without messages at the start.
constexpr auto kQuietStart = std::chrono::milliseconds(1000);

}  // namespace

ConnectionAttempts::ConnectionAttempts(const Settings& settings, Time now)
    : rejoin_timeout_(settings.rejoin_timeout),
      give_up_(now + settings.join_timeout),
      give_up_after_(settings.join_timeout),
      pause_(kFirstPause),
      next_announcement_(now + kQuietStart),
      announcement_pause_(settings.waiting_notice) {}

void ConnectionAttempts::rejoin(const std::string& loss, Time now) {
  loss_ = loss;
  give_up_after_ = rejoin_timeout_;
  give_up_ = now + rejoin_timeout_;
  pause_ = kFirstPause;
}

void ConnectionAttempts::on_joined() {
  first_refusal_.reset();
  loss_.clear();
}

/// Keeps the earlier problem at the deadline: an attempt that timed out is less specific.
void ConnectionAttempts::on_failed(const std::string& reason, Time now) {
  if (last_problem_.empty() || now < give_up_) last_problem_ = reason;
}

bool ConnectionAttempts::tolerates_refusal(Time now) {
  if (!first_refusal_) first_refusal_ = now;
  return now < *first_refusal_ + kDoubtLimit;
}

std::string ConnectionAttempts::give_up_reason() const {
  const std::string end = "; gave up after " + seconds_text(give_up_after_);
  if (loss_.empty()) return last_problem_ + end + " (join_timeout)";
  return "the rendezvous was lost (" + loss_ +
         ") and could not be reached again: " + last_problem_ + end + " (rejoin_timeout)";
}

Time ConnectionAttempts::next(Time now) {
  const auto pause = std::exchange(pause_, std::min(2 * pause_, kLongestPause));
  return std::min(now + pause, give_up_);
}

std::optional<std::string> ConnectionAttempts::take_announcement(Time now) {
  if (now < next_announcement_) return std::nullopt;
  next_announcement_ = now + announcement_pause_;
  const Time limit = first_refusal_ ? std::min(give_up_, *first_refusal_ + kDoubtLimit) : give_up_;
  return last_problem_ + "; trying again for " +
         seconds_text(std::chrono::ceil<std::chrono::seconds>(limit - now));
}

}  // namespace ddprun::membership
