#include "launcher/agent/attempt.hpp"

#include "launcher/agent/blame.hpp"
#include "launcher/agent/early_exit.hpp"
#include "launcher/agent/emit.hpp"
#include "launcher/agent/failure_hint.hpp"
#include "launcher/agent/hang_reports.hpp"
#include "launcher/agent/link_watch.hpp"
#include "launcher/agent/worker_watch.hpp"
#include "launcher/plan/log_layout.hpp"
#include "launcher/process/limit_timer.hpp"
#include "launcher/process/worker_group.hpp"
#include "launcher/report/event_text.hpp"
#include "launcher/report/exit_code.hpp"
#include "launcher/report/flights_file.hpp"
#include "rendezvous/base/text.hpp"
#include <ddprun/error.hpp>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <map>
#include <utility>

namespace ddprun {

namespace asio = boost::asio;

namespace {

// Far longer than a worker needs from its failure to its exit, unless it has much to clean up.
constexpr auto kCulpritGrace = std::chrono::milliseconds(500);

/// Culprit if the cause is on another node.
constexpr int kCulpritElsewhere = -1;

using Seconds = std::chrono::duration<double>;

// Minimum wait in a collective that is reported; longer than the steps of a healthy training.
constexpr auto kLongWait = Seconds(30);
// Longer than the differences between the times at which the workers' flights are read.
constexpr auto kUnusualWait = Seconds(1);

}  // namespace

class Attempt::Impl {
 public:
  Impl(const AttemptContext& context, AttemptFacts facts, Listener listener)
      : context_(context),
        facts_(std::move(facts)),
        listener_(std::move(listener)),
        retry_(context.executor, facts_.have_workers_started, warnings_to(context.events)),
        culprit_timer_(context.executor) {}

  asio::awaitable<AttemptEnd> run() {
    auto making = make_files();
    auto page = co_await std::move(making);
    if (page) {
      auto running = run_workers(std::move(*page));
      co_await std::move(running);
    }
    context_.folder.end_attempt(facts_.attempt);
    if (!has_stream_files(plan())) forget_empty_folders();
    co_return std::move(end_);
  }

  void forward(int signal) {
    if (group_ != nullptr) group_->forward(signal);
  }

  void set_others_activity(const membership::RankActivity& activity) {
    others_activity_ = activity;
    if (watch_) watch_->set_others_activity(activity);
  }

  void note_hang(const membership::HangNotice& notice) {
    if (hangs_) hangs_->note(notice, phase_ == Phase::running);
  }

  void note_slow_rank(const membership::SlowRankNotice& notice) {
    if (hangs_ && phase_ == Phase::running) hangs_->note(notice);
  }

  bool take_stacks(const std::string& reason) {
    if (group_ == nullptr || !are_started_ || group_->running().empty()) return false;
    record_flights();
    report_stalled(recorded_, Seconds(0));
    group_->take_stacks(reason);
    return true;
  }

  void stop(int signal, std::chrono::milliseconds grace) {
    retry_.end();
    if (group_ == nullptr) return;
    if (phase_ == Phase::running) {
      // Shows where a run hangs. Shorter waits are normal.
      record_flights();
      report_stalled(recorded_, kLongWait);
      begin_stop(signal);
    }
    group_->stop(signal, grace);
  }

  void stop_gracefully(const std::string& reason) {
    retry_.end();
    if (group_ == nullptr || phase_ != Phase::running) return;
    begin_stop(SIGTERM);
    ask_to_stop(group_->running(), reason);
  }

  void abort(const std::string& reason, bool at_once) {
    retry_.end();
    if (group_ == nullptr) return;
    note_flights();
    if (phase_ == Phase::aborted) group_->abort(kCulpritElsewhere, reason);
    stop_survivors(kCulpritElsewhere, reason);
    if (!at_once) return;
    has_lost_rendezvous_ = true;
    group_->stop(SIGKILL, std::chrono::milliseconds(0));
  }

 private:
  enum class Phase : std::uint8_t {
    running,
    stopping,  ///< the workers were asked to stop; no failure
    aborted,   ///< the collectives are aborted
  };

  void begin_stop(int signal) {
    phase_ = Phase::stopping;
    end_watch();
    stop_signal_ = signal;
  }

  const LaunchPlan& plan() const { return context_.plan; }
  void report(const Event& event) { emit(context_.events, event); }

  /// Reports name only folders that remain after the run.
  void forget_empty_folders() {
    std::error_code ignored;
    for (auto& exit : end_.exits) {
      if (exit.failed() && std::filesystem::is_empty(exit.log_folder, ignored)) {
        exit.log_folder.clear();
      }
    }
  }

  /// Creates the control page and the workers' folders. Returns nullopt on failure, or if the
  /// attempt is to end.
  asio::awaitable<std::optional<control::ControlPage>> make_files() {
    while (!retry_.has_ended()) {
      std::optional<control::ControlPage> page;
      int rank = facts_.placement.first_rank;
      const auto error = try_to_make_files(page, rank);
      if (!error) co_return page;
      auto deciding = retry_.after(
          {.step = StartStep::files, .error_number = error->error_number()}, rank, error->what());
      const auto action = co_await std::move(deciding);
      if (action == StartDecision::Action::retry) continue;
      take_failed_start({.attempt = facts_.attempt,
                         .rank = rank,
                         .step = to_string(StartStep::files),
                         .message = error->what(),
                         .ends_the_run = action == StartDecision::Action::end_run});
      break;
    }
    co_return std::nullopt;
  }

  /// Returns the error of the operating system, and sets `rank` to the affected worker.
  std::optional<Error> try_to_make_files(std::optional<control::ControlPage>& page, int& rank) {
    const auto& workers = plan().workers;
    try {
      page = control::ControlPage::create(static_cast<int>(workers.size()), facts_.attempt,
                                          facts_.run_key);
      facts_.control_page_fd = page->fd();
      facts_.worker_folders.clear();
      for (const auto& worker : workers) {
        rank = facts_.placement.first_rank + worker.local_rank;
        facts_.worker_folders.push_back(
            context_.folder.make_worker_folder(facts_.attempt, worker.local_rank));
      }
      return std::nullopt;
    } catch (const Error& error) {
      if (error.code() != Errc::system) throw;
      return error;
    }
  }

  /// From the start of the workers to the end of all their processes.
  asio::awaitable<void> run_workers(control::ControlPage page) {
    WorkerGroup group(context_.executor, facts_.attempt, context_.containment, context_.router,
                      std::move(page), warnings_to(context_.events), plan().stacks, {},
                      context_.python);
    group_ = &group;
    co_await start_workers(group);
    are_started_ = true;
    hangs_.emplace(
        context_.executor, group, context_.events,
        HangReports::Settings{.attempt = facts_.attempt,
                              .on_hang = plan().options.on_hang,
                              .has_restarts = !facts_.restarts_left || *facts_.restarts_left > 0,
                              .takes_stacks = plan().stacks.when != StacksWhen::never},
        HangReports::Listener{.report_collectives =
                                  [this] {
                                    record_flights();
                                    report_stalled(recorded_, Seconds(0));
                                  },
                              .on_hang = listener_.on_hang,
                              .on_slow_rank = listener_.on_slow_rank,
                              .on_hang_stacks = listener_.on_hang_stacks});
    watch_progress(group);
    co_await watch_workers(group);
    end_watch();
    watch_.reset();
    hangs_.reset();
    const auto swept = co_await group.sweep();
    group_ = nullptr;
    keep_flights();
    if (const auto count = swept.ended.size(); count > 0) {
      report(Warning{std::to_string(count) + (count == 1 ? " process" : " processes") +
                     " that the workers had left running " + (count == 1 ? "was" : "were") +
                     " stopped"});
    }
    report_remaining(swept);
  }

  asio::awaitable<void> start_workers(WorkerGroup& group) {
    const auto& router = context_.router;
    facts_.standard_input = standard_input_kind();
    facts_.output_terminal = router.terminal_size(StreamKind::standard_output);
    facts_.error_terminal = router.terminal_size(StreamKind::standard_error);
    auto starting = group.start(make_worker_specs(plan(), facts_), retry_);
    const auto started = co_await std::move(starting);
    if (const auto* failure = std::get_if<WorkerNotStarted>(&started)) {
      take_failed_start(*failure);
    } else {
      end_.have_workers_started = true;
      context_.folder.note_workers_started();
      for (const auto& worker : std::get<0>(started)) report(worker);
    }
  }

  void take_failed_start(const WorkerNotStarted& failure) {
    report(failure);
    if (failure.ends_the_run) {
      end_.not_started = failure;
      return;
    }
    end_.exits.push_back(exit_of(failure, facts_.placement.first_rank));
  }

  /// Returns when all processes of the group have ended. Orders the exits by the time at which the
  /// deaths were detected.
  asio::awaitable<void> watch_workers(WorkerGroup& group) {
    std::map<int, std::size_t> notice;  // rank -> position
    for (const auto& unstarted : end_.exits) notice.emplace(unstarted.rank, notice.size());
    while (true) {
      const WorkerEvent event = co_await group.next();
      if (std::holds_alternative<AllExited>(event)) break;
      if (const auto* dying = std::get_if<WorkerDying>(&event)) {
        notice.emplace(dying->rank, notice.size());
        report(*dying);
        react_to_failure(dying->rank, dying->error_code,
                         blames_a_peer(dying->error_code, dying->error_message),
                         "rank " + std::to_string(dying->rank) + " has failed");
      } else if (const auto* exited = std::get_if<WorkerExited>(&event)) {
        notice.emplace(exited->rank, notice.size());
        take_exit(*exited);
      } else if (const auto* killed = std::get_if<WorkersKilled>(&event)) {
        phase_ = Phase::aborted;
        auto reported = *killed;
        if (has_lost_rendezvous_) reported.reason = "the other nodes continue without this node";
        report(reported);
      } else if (const auto* captured = std::get_if<StacksCaptured>(&event)) {
        take_captured(*captured);
      } else if (std::holds_alternative<GroupsChanged>(event)) {
        check_early_exit();
      }
    }
    culprit_timer_.cancel();
    std::sort(end_.exits.begin(), end_.exits.end(),
              [&](const WorkerExited& a, const WorkerExited& b) {
                // Hung ranks are the cause. The order in which SIGKILL ends them has no meaning.
                if (a.hung.empty() != b.hung.empty()) return b.hung.empty();
                if (!a.hung.empty()) return a.rank < b.rank;
                return notice.at(a.rank) < notice.at(b.rank);
              });
    note_early_exit(end_.exits);
  }

  /// Workers that could not be killed are already reported by their exits.
  void report_remaining(const Swept& swept) {
    std::vector<std::string> reports;
    for (std::size_t i = 0; i < swept.left.size(); ++i) {
      const auto worker = std::find_if(end_.exits.begin(), end_.exits.end(), [&](const auto& exit) {
        return exit.pid == swept.left[i] && exit.still_running;
      });
      const bool is_worker = worker != end_.exits.end();
      reports.push_back(is_worker ? describe_failure(*worker) : swept.reports[i]);
      if (!is_worker) report(Warning{reports.back()});
    }
    if (!reports.empty()) end_.still_running = join(reports, "; ");
  }

  void take_exit(WorkerExited exit) {
    const auto& folder = context_.folder;
    if (folder.is_kept()) {
      exit.log_folder = worker_folder(folder.path(), exit.attempt, exit.local_rank);
    }
    exit.hint = failure_hint(exit, plan(), has_standard_input(plan(), facts_, exit.rank));
    end_.exits.push_back(exit);
    report(exit);
    if (exit.failed() && !exit.was_stopped) {
      react_to_failure(exit.rank, exit.error_code, is_victim_of_a_peer(exit),
                       describe_failure(exit));
    } else if (phase_ == Phase::stopping && has_crashed(exit)) {
      stop_survivors(exit.rank, describe_failure(exit) + " when it was asked to stop");
    } else {
      check_early_exit();
    }
  }

  /// Detects a worker that ended successfully while other ranks wait for it. The flights at the
  /// first failure are preferred: ranks that waited then may have failed since.
  void check_early_exit() {
    if (phase_ != Phase::running || end_.exits.empty()) return;
    auto early_exit = find_early_exit(end_.exits, end_.flights, recorded_at_);
    if (!early_exit) {
      // Some of the waiting ranks may have entered the collective after the first failure.
      auto flights = group_->flights();
      early_exit = find_early_exit(end_.exits, flights, std::chrono::system_clock::now());
      if (early_exit && !end_.flights.empty()) end_.flights = std::move(flights);
    }
    if (!early_exit) return;
    WorkerExited& exit = end_.exits[early_exit->exit];
    exit.ended_before = early_exit->before;
    const std::string reason = describe_failure(exit);
    note_flights();
    stop_survivors(exit.rank, reason);
  }

  /// Returns true if a worker that was asked to stop ended by anything but that request.
  bool has_crashed(const WorkerExited& exit) const {
    const bool is_by_request = exit.signal == stop_signal_ || exit.exit_code == 128 + stop_signal_;
    return exit.failed() && !is_by_request;
  }

  /// A worker that failed because of a peer may be detected before that peer, which would lose its
  /// error message if it were stopped now. Waits for the peer for a short time.
  void react_to_failure(int rank, std::optional<Errc> code, bool is_victim,
                        const std::string& reason) {
    note_flights();
    if (code == Errc::timeout) set_late_ranks();
    if (!is_victim) return stop_survivors(rank, reason);
    check_early_exit();
    if (phase_ == Phase::aborted || std::exchange(awaits_culprit_, true)) return;
    culprit_timer_.start(RunClock::now() + kCulpritGrace, [this, rank, reason] {
      if (group_ != nullptr) stop_survivors(rank, reason);
    });
  }

  /// Records the progress at the first failure, before the others are aborted.
  void note_flights() {
    if (phase_ != Phase::running || !end_.flights.empty()) return;
    record_flights();
    end_.flights = recorded_;
    report_stalled(end_.flights, Seconds(0));
  }

  /// The stacks of the ranks that others have waited for show why they are late.
  void set_late_ranks() {
    const auto running = group_->running();
    auto late = late_ranks(find_stalled_collectives(end_.flights));
    std::erase_if(late, [&running](int rank) {
      return std::find(running.begin(), running.end(), rank) == running.end();
    });
    if (!late.empty()) group_->set_first_stacks({.ranks = std::move(late)});
  }

  void watch_progress(WorkerGroup& group) {
    const auto& timeout = plan().options.hang_timeout;
    if (timeout.mode == HangTimeout::Mode::off || phase_ != Phase::running) return;
    const auto& place = facts_.placement;
    const bool reads_terminal = facts_.standard_input == InputKind::terminal;
    HangDetector::Settings settings{
        .timeout = timeout,
        .other_ranks = place.world_size - static_cast<int>(plan().workers.size())};
    for (const int rank : group.running()) {
      if (reads_terminal && has_standard_input(plan(), facts_, rank)) settings.terminal_rank = rank;
    }
    watch_.emplace(
        context_.executor, group, settings,
        WorkerWatch::Listener{
            .on_finding =
                [this](const HangFinding& finding, const std::vector<MissingRank>& ranks,
                       std::vector<StalledConnection> connections) {
                  take_finding(finding, ranks, std::move(connections));
                },
            .on_slow_rank = [this](const SlowRank& slow,
                                   std::string doing) { hangs_->take(slow, std::move(doing)); },
            .on_activity = listener_.on_activity});
    watch_->set_others_activity(others_activity_);
    if (!place.peers.empty())
      links_.emplace(context_.executor, group, place.peers,
                     [this](const SlowLink& link) { hangs_->take(link); });
  }

  void end_watch() {
    if (watch_) watch_->stop();
    links_.reset();
  }

  void take_finding(const HangFinding& finding, const std::vector<MissingRank>& ranks,
                    std::vector<StalledConnection> connections) {
    const OnHang action = hangs_->take(finding, ranks, std::move(connections));
    if (action != OnHang::report) end_hang(ranks, action == OnHang::stop);
  }

  void end_hang(const std::vector<MissingRank>& hung, bool is_final) {
    end_.is_final = is_final;
    note_flights();
    for (const auto& [rank, doing] : hung) {
      hung_ranks_.push_back(rank);
      group_->set_hung(rank, doing);
    }
    stop_survivors(hung_ranks_.front(),
                   ranks_phrase(hung_ranks_) + (hung_ranks_.size() == 1 ? " hangs" : " hang"));
  }

  void record_flights() { keep(group_->flights()); }

  /// Sets what keep_flights() writes. Those of PyTorch are not read again after a hang.
  void keep(std::vector<RankFlights> flights) {
    if (flights.empty()) return;
    recorded_ = std::move(flights);
    recorded_at_ = std::chrono::system_clock::now();
  }

  /// PyTorch's flight recorders are read with the stacks, if the worker runtime has recorded none.
  void take_captured(const StacksCaptured& captured) {
    if (!captured.flights.empty() && group_->flights().empty()) {
      keep(captured.flights);
      report_stalled(recorded_, captured.is_hang ? Seconds(0) : kUnusualWait);
    }
    hangs_->take(captured);
  }

  /// Writes the last recorded flights to the log folder, after all processes have ended.
  void keep_flights() {
    if (!context_.folder.is_kept()) return;
    for (const auto& flights : recorded_) {
      const auto index = static_cast<std::size_t>(flights.rank - facts_.placement.first_rank);
      const auto file = facts_.worker_folders[index] / kFlightsFile;
      const auto document = flights_document(flights, facts_.attempt, recorded_at_);
      if (const auto problem = write_flights(file, document)) return report(Warning{*problem});
    }
  }

  void report_stalled(const std::vector<RankFlights>& flights, Seconds at_least) {
    for (const auto& stalled : find_stalled_collectives(flights)) {
      if (stalled.waited_seconds >= at_least.count())
        report(CollectiveStalled{.attempt = facts_.attempt, .stalled = stalled});
    }
  }

  /// The group fails as a unit: aborts its collectives and asks the remaining workers to stop,
  /// unless they have already been asked.
  void stop_survivors(int culprit, const std::string& reason) {
    const auto before = std::exchange(phase_, Phase::aborted);
    if (before == Phase::aborted) return;
    end_watch();
    if (listener_.on_failure && culprit != kCulpritElsewhere) listener_.on_failure(reason);
    group_->abort(culprit, reason);
    if (before == Phase::stopping) return;
    auto ranks = group_->running();
    // A dying culprit is subject to the same grace period.
    const bool have_all_ended = ranks.empty();
    std::erase(ranks, culprit);
    std::erase_if(ranks, [this](int rank) {
      return std::find(hung_ranks_.begin(), hung_ranks_.end(), rank) != hung_ranks_.end();
    });
    if (!have_all_ended) ask_to_stop(ranks, reason);
  }

  void ask_to_stop(const std::vector<int>& ranks, const std::string& reason) {
    if (!ranks.empty()) {
      report(WorkersStopping{.attempt = facts_.attempt, .reason = reason, .ranks = ranks});
    }
    group_->stop(SIGTERM, plan().options.shutdown_timeout);
  }

  const AttemptContext& context_;
  AttemptFacts facts_;
  Listener listener_;
  StartRetry retry_;
  LimitTimer culprit_timer_;
  std::optional<HangReports> hangs_;  ///< while workers run
  std::optional<WorkerWatch> watch_;  ///< while workers run
  std::optional<LinkWatch> links_;    ///< while workers run and other nodes are known
  WorkerGroup* group_ = nullptr;      ///< null unless processes of the workers may exist
  bool are_started_ = false;
  bool has_lost_rendezvous_ = false;
  bool awaits_culprit_ = false;
  Phase phase_ = Phase::running;
  membership::RankActivity others_activity_;
  std::vector<int> hung_ranks_;        ///< killed after a hang
  int stop_signal_ = 0;                ///< 0: none
  std::vector<RankFlights> recorded_;  ///< flights of the last keep()
  std::chrono::system_clock::time_point recorded_at_;
  AttemptEnd end_;
};

Attempt::Attempt(const AttemptContext& context, AttemptFacts facts, Listener listener)
    : impl_(std::make_unique<Impl>(context, std::move(facts), std::move(listener))) {}

Attempt::~Attempt() = default;

asio::awaitable<AttemptEnd> Attempt::run() {
  return impl_->run();
}

void Attempt::abort(const std::string& reason, bool at_once) {
  impl_->abort(reason, at_once);
}

void Attempt::stop_gracefully(const std::string& reason) {
  impl_->stop_gracefully(reason);
}

void Attempt::forward(int signal) {
  impl_->forward(signal);
}

void Attempt::set_others_activity(const membership::RankActivity& activity) {
  impl_->set_others_activity(activity);
}

void Attempt::note_hang(const membership::HangNotice& notice) {
  impl_->note_hang(notice);
}

void Attempt::note_slow_rank(const membership::SlowRankNotice& notice) {
  impl_->note_slow_rank(notice);
}

bool Attempt::take_stacks(const std::string& reason) {
  return impl_->take_stacks(reason);
}

void Attempt::stop(int signal, std::chrono::milliseconds grace) {
  impl_->stop(signal, grace);
}

}  // namespace ddprun
