#include "launcher/agent/hang_reports.hpp"

#include "launcher/agent/emit.hpp"
#include "rendezvous/base/run_clock.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <utility>

namespace ddprun {

using membership::HangNotice;
using membership::SlowRankNotice;

namespace {

using Seconds = std::chrono::duration<double>;

// Minimum time between captures of stacks for hangs whose cause is not on this node. All nodes
// detect the same hang within seconds.
constexpr auto kCapturePause = std::chrono::seconds(30);

std::string speed_text(double bytes_per_second) {
  char text[32];
  const double megabytes = bytes_per_second / 1e6;
  std::snprintf(text, sizeof text, megabytes < 10 ? "%.2f MB/s" : "%.1f MB/s", megabytes);
  return text;
}

/// Returns "sends 93 % of the time, at 11.9 MB/s instead of 118.3 MB/s".
std::string describe(const SlowLink& link) {
  return "sends " + std::to_string(std::lround(100 * link.part)) + " % of the time, at " +
         speed_text(link.speed) + " instead of " + speed_text(link.usual_speed);
}

}  // namespace

HangReports::HangReports(const boost::asio::any_io_executor& executor, WorkerGroup& group,
                         EventSink& events, const Settings& settings, Listener listener)
    : group_(group),
      events_(events),
      settings_(settings),
      listener_(std::move(listener)),
      pause_(executor) {}

OnHang HangReports::take(const HangFinding& finding, std::vector<MissingRank> ranks,
                         std::vector<StalledConnection> connections) {
  if (finding.kind == HangFinding::Kind::resumed) {
    report_end(finding, std::move(ranks));
    return OnHang::report;
  }
  const bool is_certain = finding.kind == HangFinding::Kind::certain;
  const bool must_report = !is_certain || lacks_restarts(finding);
  if (ranks.empty() && connections.empty() && !hung_nodes_.empty()) return OnHang::report;
  is_reported_ = true;
  const OnHang action = must_report ? OnHang::report : settings_.on_hang;
  report(HangDetected{.attempt = settings_.attempt,
                      .seconds = Seconds(finding.time).count(),
                      .is_certain = is_certain,
                      .ranks = ranks,
                      .connections = connections,
                      .action = action,
                      .lacks_restarts = lacks_restarts(finding)});
  notify_others({.time = finding.time,
                 .is_certain = is_certain,
                 .ends_round = action != OnHang::report,
                 .ranks = std::move(ranks),
                 .connections = std::move(connections)});
  std::vector<int> hung;
  for (const auto& rank : finding.ranks) hung.push_back(rank.rank);
  if (action != OnHang::report) {
    group_.set_first_stacks({.ranks = std::move(hung), .is_hang = true});
  } else if (!hung.empty()) {
    take_stacks(std::move(hung));
  } else {
    take_stacks_unless_paused(std::nullopt);
  }
  return action;
}

/// Another node has reported the hang if this node has not.
void HangReports::report_end(const HangFinding& finding, std::vector<MissingRank> ranks) {
  if (std::exchange(is_reported_, false))
    report(HangEnded{.attempt = settings_.attempt, .seconds = Seconds(finding.time).count()});
  if (std::exchange(has_notified_others_, false))
    listener_.on_hang({.time = finding.time, .has_ended = true, .ranks = std::move(ranks)});
}

void HangReports::take(const StacksCaptured& captured) {
  if (captured.is_hang) is_capturing_ = false;
  if (captured.is_hang && listener_.on_hang_stacks)
    return listener_.on_hang_stacks(captured.stacks);
  for (const auto& taken : captured.stacks) report(taken);
}

void HangReports::take(const SlowRank& slow, std::string doing) {
  report_and_notify({.rank = slow.rank,
                     .is_slow = slow.is_slow,
                     .factor = slow.factor,
                     .seconds = Seconds(slow.time).count(),
                     .doing = std::move(doing)});
}

void HangReports::take(const SlowLink& link) {
  SlowRankNotice notice{.rank = link.rank, .is_slow = link.is_slow, .peer = link.node};
  if (link.is_slow) {
    notice.factor = link.usual_speed / link.speed;
    notice.seconds = Seconds(link.time).count();
    notice.doing = describe(link);
  }
  report_and_notify(notice);
}

void HangReports::report_and_notify(const SlowRankNotice& notice) {
  note(notice);
  if (listener_.on_slow_rank) listener_.on_slow_rank(notice);
}

void HangReports::note(const HangNotice& notice, bool may_capture) {
  const double seconds = Seconds(notice.time).count();
  if (notice.has_ended) {
    hung_nodes_.erase(notice.node);
    return report(HangEnded{.attempt = settings_.attempt, .node = notice.node, .seconds = seconds});
  }
  hung_nodes_.insert(notice.node);
  report(HangDetected{.attempt = settings_.attempt,
                      .node = notice.node,
                      .seconds = seconds,
                      .is_certain = notice.is_certain,
                      .ranks = notice.ranks,
                      .connections = notice.connections,
                      .action = notice.ends_round ? settings_.on_hang : OnHang::report});
  if (!may_capture) return;
  if (notice.ends_round) {
    group_.set_first_stacks({.ranks = std::vector<int>(), .is_hang = true});
  } else {
    take_stacks_unless_paused(std::vector<int>());
  }
}

void HangReports::note(const SlowRankNotice& notice) {
  if (notice.is_slow) {
    report(SlowRankDetected{.attempt = settings_.attempt,
                            .rank = notice.rank,
                            .node = notice.node,
                            .factor = notice.factor,
                            .seconds = notice.seconds,
                            .doing = notice.doing,
                            .peer = notice.peer});
  } else {
    report(SlowRankRecovered{.attempt = settings_.attempt,
                             .rank = notice.rank,
                             .node = notice.node,
                             .peer = notice.peer});
  }
}

bool HangReports::lacks_restarts(const HangFinding& finding) const {
  return finding.kind == HangFinding::Kind::certain && settings_.on_hang == OnHang::restart &&
         !settings_.has_restarts;
}

/// A hang whose cause is unknown is reported only by the nodes that detect it.
void HangReports::notify_others(const HangNotice& notice) {
  const bool is_cause_known = !notice.ranks.empty() || !notice.connections.empty();
  if (!listener_.on_hang || !is_cause_known) return;
  has_notified_others_ = true;
  listener_.on_hang(notice);
}

/// The first node waits for the stacks of all nodes.
void HangReports::take_stacks_unless_paused(std::optional<std::vector<int>> hung) {
  if (!pause_.is_running()) return take_stacks(std::move(hung));
  if (!is_capturing_ && listener_.on_hang_stacks) listener_.on_hang_stacks({});
}

void HangReports::take_stacks(std::optional<std::vector<int>> hung) {
  pause_.start(RunClock::now() + kCapturePause, [] {});
  listener_.report_collectives();
  if (settings_.takes_stacks)
    is_capturing_ =
        group_.take_stacks("during a hang", {.ranks = std::move(hung), .is_hang = true});
  if (!is_capturing_ && listener_.on_hang_stacks) listener_.on_hang_stacks({});
}

void HangReports::report(const Event& event) const {
  emit(events_, event);
}

}  // namespace ddprun
