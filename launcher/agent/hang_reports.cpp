#include "launcher/agent/hang_reports.hpp"

#include "launcher/agent/emit.hpp"
#include "rendezvous/base/run_clock.hpp"

#include <chrono>
#include <utility>

namespace ddprun {

using membership::HangNotice;
using membership::SlowRankNotice;

namespace {

using Seconds = std::chrono::duration<double>;

// Time after a capture of stacks during which hangs without a cause on this node do not lead to
// another one: all nodes detect the same hang within seconds.
constexpr auto kCapturePause = std::chrono::seconds(30);

std::vector<int> numbers_of(const HangFinding& finding) {
  std::vector<int> ranks;
  for (const auto& rank : finding.ranks) ranks.push_back(rank.rank);
  return ranks;
}

}  // namespace

HangReports::HangReports(const boost::asio::any_io_executor& executor, WorkerGroup& group,
                         EventSink& events, const Settings& settings, Listener listener)
    : group_(group),
      events_(events),
      settings_(settings),
      listener_(std::move(listener)),
      pause_(executor) {}

OnHang HangReports::take(const HangFinding& finding, std::vector<MissingRank> ranks) {
  const double seconds = Seconds(finding.time).count();
  if (finding.kind == HangFinding::Kind::resumed) {
    report(HangEnded{.attempt = settings_.attempt, .seconds = seconds});
    notify_others({.time = finding.time, .has_ended = true, .ranks = std::move(ranks)});
    return OnHang::report;
  }
  const bool is_certain = finding.kind == HangFinding::Kind::certain;
  const bool must_report = !is_certain || lacks_restarts(finding);
  const OnHang action = must_report ? OnHang::report : settings_.on_hang;
  report(HangDetected{.attempt = settings_.attempt,
                      .seconds = seconds,
                      .is_certain = is_certain,
                      .ranks = ranks,
                      .action = action,
                      .lacks_restarts = lacks_restarts(finding)});
  notify_others({.time = finding.time,
                 .is_certain = is_certain,
                 .ends_round = action != OnHang::report,
                 .ranks = std::move(ranks)});
  auto hung = numbers_of(finding);
  if (action != OnHang::report) {
    group_.set_first_stacks(scope_of(std::move(hung)));
  } else if (!hung.empty()) {
    take_stacks(std::move(hung));
  } else if (!pause_.is_running()) {
    take_stacks(std::nullopt);
  }
  return action;
}

void HangReports::take(const SlowRank& slow, std::string doing) {
  const SlowRankNotice notice{.rank = slow.rank,
                              .is_slow = slow.is_slow,
                              .factor = slow.factor,
                              .seconds = Seconds(slow.time).count(),
                              .doing = std::move(doing)};
  note(notice);
  if (listener_.on_slow_rank) listener_.on_slow_rank(notice);
}

void HangReports::note(const HangNotice& notice) {
  const double seconds = Seconds(notice.time).count();
  if (notice.has_ended)
    return report(HangEnded{.attempt = settings_.attempt, .node = notice.node, .seconds = seconds});
  report(HangDetected{.attempt = settings_.attempt,
                      .node = notice.node,
                      .seconds = seconds,
                      .is_certain = notice.is_certain,
                      .ranks = notice.ranks,
                      .action = notice.ends_round ? settings_.on_hang : OnHang::report});
  if (notice.ends_round) {
    group_.set_first_stacks(scope_of(std::vector<int>()));
  } else if (!pause_.is_running()) {
    take_stacks(std::vector<int>());
  }
}

void HangReports::note(const SlowRankNotice& notice) {
  if (notice.is_slow) {
    report(SlowRankDetected{.attempt = settings_.attempt,
                            .rank = notice.rank,
                            .node = notice.node,
                            .factor = notice.factor,
                            .seconds = notice.seconds,
                            .doing = notice.doing});
  } else {
    report(
        SlowRankRecovered{.attempt = settings_.attempt, .rank = notice.rank, .node = notice.node});
  }
}

bool HangReports::lacks_restarts(const HangFinding& finding) const {
  return finding.kind == HangFinding::Kind::certain && settings_.on_hang == OnHang::restart &&
         !settings_.has_restarts;
}

/// A hang whose cause is unknown is reported only by the nodes that detect it.
void HangReports::notify_others(const HangNotice& notice) const {
  if (listener_.on_hang && !notice.ranks.empty()) listener_.on_hang(notice);
}

/// Returns the stacks to take in a hang: those of `hung`, all if nullopt, by all methods; those of
/// the other ranks, which wait, only by quick ones.
StackScope HangReports::scope_of(std::optional<std::vector<int>> hung) const {
  return {.ranks = std::move(hung), .quick_ranks = group_.running(), .is_hang = true};
}

void HangReports::take_stacks(std::optional<std::vector<int>> hung) {
  pause_.start(RunClock::now() + kCapturePause, [] {});
  listener_.report_collectives();
  if (settings_.takes_stacks) return group_.take_stacks("during a hang", scope_of(std::move(hung)));
  if (listener_.on_hang_stacks) listener_.on_hang_stacks({});
}

void HangReports::report(const Event& event) const {
  emit(events_, event);
}

}  // namespace ddprun
