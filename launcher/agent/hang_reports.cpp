#include "launcher/agent/hang_reports.hpp"

#include "launcher/agent/emit.hpp"
#include "launcher/process/proc_scan.hpp"
#include "launcher/process/tcp_connections.hpp"
#include "launcher/process/worker_sample.hpp"
#include "rendezvous/base/run_clock.hpp"

#include <chrono>
#include <cstdint>
#include <set>
#include <utility>

namespace ddprun {

using membership::HangNotice;
using membership::SlowRankNotice;

namespace {

using Seconds = std::chrono::duration<double>;

// Minimum time between captures of stacks for hangs whose cause is not on this node. All nodes
// detect the same hang within seconds.
constexpr auto kCapturePause = std::chrono::seconds(30);

/// Returns the connections of the workers and their descendants that wait for acknowledgements.
std::vector<StalledConnection> stalled_connections(const std::vector<WorkerSample>& workers) {
  auto connections = tcp_connections();
  // A single packet may be lost at any time.
  std::erase_if(connections, [](const auto& one) { return one.retransmissions < 2; });
  std::vector<StalledConnection> stalled;
  if (connections.empty()) return stalled;
  for (const auto& worker : workers) {
    std::set<std::uint64_t> sockets;
    for (const pid_t pid : with_descendants(worker.pid, kProcessesMax))
      sockets.merge(sockets_of(pid));
    for (const auto& one : connections) {
      if (sockets.contains(one.inode))
        stalled.push_back({worker.rank, one.peer, one.silence, one.retransmissions});
    }
  }
  return stalled;
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
  std::vector<StalledConnection> connections;
  if (ranks.empty()) connections = stalled_connections(group_.sample(false));
  const OnHang action = must_report ? OnHang::report : settings_.on_hang;
  report(HangDetected{.attempt = settings_.attempt,
                      .seconds = seconds,
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
                      .connections = notice.connections,
                      .action = notice.ends_round ? settings_.on_hang : OnHang::report});
  if (notice.ends_round) {
    group_.set_first_stacks({.ranks = std::vector<int>(), .is_hang = true});
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
  const bool is_cause_known = !notice.ranks.empty() || !notice.connections.empty();
  if (listener_.on_hang && (is_cause_known || notice.has_ended)) listener_.on_hang(notice);
}

void HangReports::take_stacks(std::optional<std::vector<int>> hung) {
  pause_.start(RunClock::now() + kCapturePause, [] {});
  listener_.report_collectives();
  if (settings_.takes_stacks)
    return group_.take_stacks("during a hang", {.ranks = std::move(hung), .is_hang = true});
  if (listener_.on_hang_stacks) listener_.on_hang_stacks({});
}

void HangReports::report(const Event& event) const {
  emit(events_, event);
}

}  // namespace ddprun
