#include "launcher/agent/run.hpp"

#include "launcher/agent/coordinator_link.hpp"
#include "launcher/agent/emit.hpp"
#include "launcher/agent/failure_text.hpp"
#include "launcher/agent/hang_stacks.hpp"
#include "launcher/agent/host_search.hpp"
#include "launcher/agent/placement.hpp"
#include "launcher/agent/preflight.hpp"
#include "launcher/agent/store_use.hpp"
#include "launcher/agent/store_users.hpp"
#include "launcher/process/waiting_code.hpp"
#include "rendezvous/base/await.hpp"
#include "rendezvous/base/endpoint.hpp"
#include "rendezvous/base/hmac.hpp"
#include "rendezvous/base/random_bytes.hpp"
#include "rendezvous/base/run_clock.hpp"
#include "rendezvous/base/signal_name.hpp"
#include "rendezvous/membership/bounds.hpp"
#include "rendezvous/membership/node_state_machine.hpp"
#include "rendezvous/membership/peer_probe.hpp"
#include "rendezvous/security/crypto.hpp"
#include "rendezvous/store/listener.hpp"
#include "rendezvous/store/store_server.hpp"
#include <ddprun/error.hpp>

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <optional>
#include <unistd.h>
#include <utility>

namespace ddprun {

namespace asio = boost::asio;
using namespace membership;

namespace {

std::uint64_t draw_instance() {
  std::uint64_t instance = 0;
  std::memcpy(&instance, random_bytes(sizeof instance).data(), sizeof instance);
  return instance;
}

}  // namespace

class Run::Impl : public std::enable_shared_from_this<Impl> {
 public:
  explicit Impl(const AttemptContext& context)
      : context_(context),
        plan_(context.plan),
        search_(context.executor, plan_, store_users(plan_, context.containment),
                warnings_to(context.events)),
        wake_(context.executor),
        ended_(context.executor, Time::max()),
        attempt_ended_(context.executor, Time::max()),
        hang_stacks_(context.executor, context.events) {}

  asio::awaitable<RunFinished> run(StartNotice on_start) {
    if (plan_.preflight) {
      preflight_.emplace(context_);
      auto checking = preflight_->run();
      const auto end = co_await std::move(checking);
      preflight_.reset();
      if (end) co_return *end;
    }
    if (plan_.worker_store_port) reserved_port_.emplace(*plan_.worker_store_port);
    if (plan_.nodes) on_start(plan_.store_port);
    co_await find_host();
    // No node can have joined yet.
    if (stop_signal_ != 0) co_return make_finished(interrupted());
    if (!host_) co_return finished();
    if (plan_.nodes) {
      if (!host_->note().empty()) report(Note{host_->note()});
      if (plan_.nodes->is_rank_assumed && !host_->is_here()) warn_of_rank();
    } else {
      const auto& store = *host_->store();
      store_use_.emplace(context_.executor, plan_, store, context_.events,
                         [agent = ::getpid()] { return sleeping_in_pytorch(agent); });
      on_start(store.endpoint().port);
    }
    if (host_->is_here()) {
      asio::co_spawn(context_.executor, watch_host(shared_from_this()), fail_with_failure());
    }
    link_ =
        std::make_shared<CoordinatorLink>(context_.executor, plan_, search_.secret(), listener());
    node_.emplace(make_join(plan_, instance_, host_->is_here()), membership_settings(plan_),
                  RunClock::now());
    perform(node_->start(RunClock::now()));
    if (!outcome_) co_await ended_.async_wait(kAwait);
    hang_stacks_.report_all();
    if (!failure_) co_return co_await end_together();
    // The workers were killed, but their exits are still to be reported.
    if (attempt_ != nullptr) co_await attempt_ended_.async_wait(kAwait);
    co_return finished();
  }

  asio::awaitable<RunFinished> end_together() {
    // The other nodes must get the outcome before the coordinator ends.
    link_->close();
    if (has_left_others_) {
      if (attempt_ != nullptr) co_await attempt_ended_.async_wait(kAwait);
    } else {
      auto token = asio::bind_cancellation_slot(left_others_.slot(), asio::use_awaitable);
      try {
        co_await asio::co_spawn(context_.executor, host_->wait_until_over(), std::move(token));
      } catch (const boost::system::system_error&) {
        // Cancelled by leave_others().
      }
    }
    for (const auto& refusal : host_->refusals()) report(Warning{"the rendezvous " + refusal});
    store_use_.reset();
    host_.reset();
    co_return make_finished(*outcome_);
  }

  void forward(int signal) {
    if (attempt_ != nullptr) attempt_->forward(signal);
  }

  bool has_workers() const { return attempt_ != nullptr || preflight_; }

  bool take_stacks(const std::string& reason) {
    return attempt_ != nullptr && attempt_->take_stacks(reason);
  }

  void stop(int signal, bool is_first) {
    if (preflight_) return preflight_->stop(signal);
    if (is_first) {
      stop_signal_ = signal;
      // The other nodes are notified before the workers of this node end.
      if (node_) leave(signal);
      if (host_) host_->resign();
      if (!host_) search_.interrupt();
      if (attempt_ != nullptr) attempt_->stop(signal, plan_.options.shutdown_timeout);
      return;
    }
    if (attempt_ != nullptr) attempt_->stop(SIGKILL, std::chrono::milliseconds(0));
    if (!host_) return;
    if (attempt_ == nullptr || std::exchange(has_killed_, true)) {
      host_->resign();
      if (host_->is_here()) leave_others();
    } else if (plan_.nodes && host_->is_here()) {
      report(
          Note{"this node hosts the rendezvous and ends when the workers of the other nodes have "
               "ended; send the signal again to end before them"});
    }
  }

  Problem objection_to_suspension() const {
    if (preflight_) return "the time limits of the preflight would pass meanwhile";
    if (!plan_.nodes) return std::nullopt;
    return "the other nodes would continue without this one (Ctrl-C leaves the run)";
  }

  /// Coroutines keep this object alive and would continue.
  void close() {
    is_closed_ = true;
    wake_.cancel();
    if (link_) link_->close();
    store_use_.reset();
    host_.reset();
  }

 private:
  /// Leaves host_ empty if interrupted by a signal. If the endpoint's name cannot be resolved or
  /// this node cannot listen there, sets outcome_; a single-node run throws the error.
  asio::awaitable<void> find_host() {
    auto finding = search_.find(make_join(plan_, instance_, false), follow_term());
    try {
      host_ = co_await std::move(finding);
    } catch (const Error& error) {
      if (!plan_.nodes) throw;
      if (error.code() != Errc::network) failure_ = std::current_exception();
      outcome_ = RunOutcome{.result = RunResult::no_rendezvous, .reason = error.what()};
    }
  }

  void warn_of_rank() {
    report(
        Warning{"--node_rank is missing: this node uses 0, the rank of the node that hosts the "
                "rendezvous at " +
                store_text(plan_, plan_.store_port) +
                "; give each other node its own rank, --node_rank=1 and so on"});
  }

  /// Workers on the coordinator's node must not outlive its term, even if this process is stopped.
  etcd::RenewalCallback follow_term() {
    return [weak = weak_from_this()](Time end) {
      if (const auto self = weak.lock()) self->apply(TermRenewed{end});
    };
  }

  CoordinatorLink::Listener listener() {
    return {.take =
                [weak = weak_from_this()](const NodeEvent& event) {
                  if (const auto self = weak.lock()) self->take(event);
                },
            .note =
                [weak = weak_from_this()](const std::string& text) {
                  if (const auto self = weak.lock()) self->report(Note{text});
                }};
  }

  /// Derived from the outcome, unless the agent itself has failed.
  RunFinished finished() const {
    RunFinished finished = make_finished(*outcome_);
    if (!failure_) return finished;
    finished.result = RunResult::agent_failed;
    finished.failures.clear();  // killed because of it
    finished.exit_code = exit_code_of(failure_);
    return finished;
  }

  RunFinished make_finished(const RunOutcome& outcome) const {
    const bool is_only = !plan_.nodes;
    auto finished = make_run_finished(outcome, plan_, is_only ? &last_end_ : nullptr, advice_);
    // A formed round may not have started.
    if (is_only) finished.attempts = attempts_;
    return finished;
  }

  RunOutcome interrupted() const {
    return {.result = RunResult::interrupted,
            .scope = plan_.nodes ? OutcomeScope::node : OutcomeScope::run,
            .rounds = attempts_,
            .reason = "this node was asked to stop by " + signal_name(stop_signal_),
            .signal = stop_signal_};
  }

  void leave(int signal) {
    apply(AskedToLeave{"was asked to stop by " + signal_name(signal), signal});
  }

  // Execution of decisions.

  void take(const NodeEvent& event) {
    const auto* received = std::get_if<MessageReceived>(&event);
    if (received != nullptr && host_) host_->observe(received->message);
    apply(event);
  }

  void apply(const NodeEvent& event) {
    if (is_closed_ || failure_ || !node_) return;
    try {
      perform(node_->apply(event, RunClock::now()));
    } catch (...) {
      fail(std::current_exception());
    }
  }

  void perform(const std::vector<NodeAction>& actions) {
    for (const auto& action : actions) {
      std::visit([this](const auto& value) { act(value); }, action);
      if (failure_) return;
    }
    schedule_wake();
  }

  void schedule_wake() {
    const auto when = node_->next_wake();
    if (!when) {
      wake_.cancel();
      return;
    }
    wake_.expires_at(*when);
    wake_.async_wait([weak = weak_from_this()](boost::system::error_code error) {
      const auto self = weak.lock();
      if (self && !error) self->apply(NodeTimePassed{});
    });
  }

  void act(const Connect& connect) {
    link_->connect(host_->find(connect.not_before), node_->give_up());
  }

  void act(const Disconnect&) { link_->disconnect(); }

  void act(const Send& send) { link_->send(send.message); }

  void act(const StartWorkers& start) {
    asio::co_spawn(context_.executor, run_attempt(shared_from_this(), start.round),
                   fail_with_failure());
  }

  void act(const EndWorkers& end) {
    if (attempt_ == nullptr) return;
    if (end.is_orderly) {
      attempt_->stop_gracefully(end.reason);
    } else {
      attempt_->abort(end.reason, end.at_once);
    }
  }

  void act(const NoteActivity& note) {
    if (attempt_ != nullptr) attempt_->set_others_activity(note.activity);
  }

  void act(const NoteHang& noted) {
    if (attempt_ != nullptr) attempt_->note_hang(noted.notice);
  }

  void act(const NoteSlowRank& noted) {
    if (attempt_ != nullptr) attempt_->note_slow_rank(noted.notice);
  }

  void act(const NoteStacks& noted) {
    auto stacks = noted.notice.stacks;
    for (auto& taken : stacks) {
      taken.attempt = noted.notice.round;
      taken.node = noted.notice.node;
    }
    hang_stacks_.add(noted.notice.node, std::move(stacks));
  }

  void act(const ProbePeers& probing) {
    asio::co_spawn(context_.executor, probe(weak_from_this(), probing),
                   [weak = weak_from_this()](const std::exception_ptr& failure) {
                     const auto self = weak.lock();
                     if (failure && self) self->fail(failure);
                   });
  }

  static asio::awaitable<void> probe(std::weak_ptr<Impl> run, ProbePeers probing) {
    const auto deadline = Deadline::after(probing.probe.timeout);
    auto finding = find_unreachable(std::move(probing.probe.peers), deadline);
    auto unreachable = co_await std::move(finding);
    const auto self = run.lock();
    if (self) self->apply(PeersProbed{probing.serial, std::move(unreachable)});
  }

  void act(const GuardUntil& guard) {
    try {
      context_.containment.guard_until(RunClock::to_steady(guard.end));
    } catch (const Error&) {
      fail(std::current_exception());
    }
  }

  void act(const Announce& announce) {
    if (announce.is_warning) return report(Warning{announce.text});
    report(Note{announce.text});
  }

  void act(const AnnounceRound& round) {
    last_end_.exits.clear();
    advice_.clear();
    report(RestartDecided{.next_attempt = round.next.round,
                          .reason = round.next.reason,
                          .delay = round.next.delay,
                          .is_planned = round.is_planned});
  }

  /// The other agents lose the rendezvous, and kill their workers when they give up reconnecting.
  void leave_others() {
    has_left_others_ = true;
    if (!outcome_) outcome_ = interrupted();
    ended_.cancel();
    left_others_.emit(asio::cancellation_type::terminal);
  }

  void act(const Resign&) {
    if (host_) host_->resign();
  }

  void act(const EndRun& end) {
    outcome_ = end.outcome;
    ended_.cancel();
  }

  std::function<void(std::exception_ptr)> fail_with_failure() {
    return [self = shared_from_this()](const std::exception_ptr& failure) {
      if (failure) self->fail(failure);
    };
  }

  /// A failure of the coordinator ends this agent with the same error.
  static asio::awaitable<void> watch_host(std::shared_ptr<Impl> self) {
    co_await self->host_->wait_until_over();
    if (self->host_ && self->host_->failure()) std::rethrow_exception(self->host_->failure());
  }

  /// Ends all decisions; run() waits for the end of the workers.
  void fail(const std::exception_ptr& failure) {
    const bool has_ended = outcome_ && attempt_ == nullptr;
    if (failure_ || has_ended) return;
    failure_ = failure;
    wake_.cancel();
    link_->close();
    outcome_ = RunOutcome{
        .result = RunResult::failed, .rounds = attempts_, .reason = failure_text(failure)};
    ended_.cancel();
    if (attempt_ != nullptr) attempt_->abort("this node's agent cannot continue", true);
  }

  // Workers of a round.

  /// Notifies waiters of the end of an attempt on every path.
  class RunningAttempt {
   public:
    RunningAttempt(Impl& run, Attempt& attempt) : run_(run) { run_.attempt_ = &attempt; }
    RunningAttempt(const RunningAttempt&) = delete;
    RunningAttempt& operator=(const RunningAttempt&) = delete;
    ~RunningAttempt() {
      run_.attempt_ = nullptr;
      run_.attempt_ended_.cancel();
    }

   private:
    Impl& run_;
  };

  static asio::awaitable<void> run_attempt(std::shared_ptr<Impl> self, RoundFormed round) {
    if (self->failure_ || self->has_left_others_) co_return;
    AttemptFacts facts{.attempt = round.round,
                       .restart_count = round.restarts_used,
                       .restarts_left = restarts_left(round.restarts_used,
                                                      membership_settings(self->plan_).restarts),
                       .have_workers_started = self->have_workers_started_,
                       .placement = make_placement(round, self->store_host()),
                       .store_port = round.store_port,
                       .run_key = self->key_of_round(round.round)};
    if (self->reserved_port_) facts.worker_store_port = self->reserved_port_->port();
    ++self->attempts_;
    self->hang_stacks_.begin_round(facts.placement.node_count);
    self->report_round(facts);
    Attempt attempt(
        self->context_, facts,
        {.on_failure = [self](const auto& reason) { self->apply(OwnWorkersFailing{reason}); },
         .on_hang = [self](const HangNotice& notice) { self->apply(notice); },
         .on_slow_rank = [self](const SlowRankNotice& notice) { self->apply(notice); },
         .on_hang_stacks =
             [self, is_first = facts.placement.node_rank == 0](std::vector<StacksTaken> stacks) {
               self->share(std::move(stacks), is_first);
             },
         .on_activity =
             [self](const membership::RankActivity& activity) {
               self->apply(OwnActivity{activity});
             }});
    std::optional<RunningAttempt> running(std::in_place, *self, attempt);
    if (self->store_use_) self->store_use_->start_attempt();
    AttemptEnd end = co_await attempt.run();
    running.reset();
    if (self->store_use_) self->advice_ = self->store_use_->end_attempt(end.exits);
    if (end.have_workers_started) self->have_workers_started_ = true;
    auto ended = make_end(end, self->plan_);
    self->last_end_ = std::move(end);
    self->apply(std::move(ended));
  }

  /// The first node reports the stacks of all nodes, each other node those of its own ranks.
  void share(std::vector<StacksTaken> stacks, bool is_first) {
    for (auto& taken : stacks) {
      for (auto& line : taken.lines) cut(line, kStackLineBytesMax);  // as on other nodes
    }
    if (is_first) {
      hang_stacks_.add("", std::move(stacks));
      if (outcome_) hang_stacks_.report_all();  // the others have left or will not answer
      return;
    }
    for (const auto& taken : stacks) report(taken);
    apply(StacksNotice{.stacks = std::move(stacks)});
  }

  /// Returns the address by which the workers reach the store.
  std::string store_host() const { return plan_.nodes ? link_->peer_address() : plan_.store_host; }

  /// Returns a key that only the workers of this round receive.
  std::optional<Digest> key_of_round(int round) const {
    const auto* secret = search_.secret();
    if (secret == nullptr) return std::nullopt;
    const auto key = security::derive_key(secret->bytes(), plan_.run_id,
                                          "ddprun workers of round " + std::to_string(round));
    Digest bytes{};
    std::copy(key.bytes().begin(), key.bytes().end(), bytes.begin());
    return bytes;
  }

  void report_round(const AttemptFacts& facts) {
    const auto& place = facts.placement;
    if (plan_.nodes) {
      report(RoundJoined{.round = facts.attempt,
                         .node_rank = place.node_rank,
                         .node_count = place.node_count,
                         .first_rank = place.first_rank,
                         .local_world_size = static_cast<int>(plan_.workers.size()),
                         .world_size = place.world_size,
                         .store = to_string(StoreEndpoint{place.master_addr, facts.store_port})});
    }
    report(AttemptStarted{.attempt = facts.attempt, .restarts_left = facts.restarts_left});
  }

  void report(const Event& event) { emit(context_.events, event); }

  const AttemptContext& context_;
  const LaunchPlan& plan_;
  const std::uint64_t instance_ = draw_instance();
  HostSearch search_;
  RunTimer wake_;
  asio::steady_timer ended_;                      ///< cancelled when there is an outcome
  asio::steady_timer attempt_ended_;              ///< cancelled when an attempt has ended
  std::optional<Preflight> preflight_;            ///< during the preflight
  std::optional<PortReservation> reserved_port_;  ///< for a store that the workers host
  std::unique_ptr<Host> host_;
  std::optional<StoreUseWatch> store_use_;  ///< single node only
  std::shared_ptr<CoordinatorLink> link_;   ///< once the host is known
  std::optional<NodeStateMachine> node_;
  Attempt* attempt_ = nullptr;
  HangStacks hang_stacks_;
  int attempts_ = 0;  ///< on this node, including those whose workers could not be started
  bool have_workers_started_ = false;
  AttemptEnd last_end_;
  std::string advice_;  ///< about the store, appended to the reason for a failure
  int stop_signal_ = 0;
  bool has_killed_ = false;                ///< a second stop request killed the workers
  asio::cancellation_signal left_others_;  ///< ends the host's wait for the other nodes
  bool has_left_others_ = false;
  bool is_closed_ = false;
  std::optional<RunOutcome> outcome_;
  std::exception_ptr failure_;
};

Run::Run(const AttemptContext& context) : impl_(std::make_shared<Impl>(context)) {}

Run::~Run() {
  impl_->close();
}

asio::awaitable<RunFinished> Run::run(StartNotice on_start) {
  return impl_->run(std::move(on_start));
}

void Run::forward(int signal) {
  impl_->forward(signal);
}

bool Run::has_workers() const {
  return impl_->has_workers();
}

bool Run::take_stacks(const std::string& reason) {
  return impl_->take_stacks(reason);
}

void Run::stop(int signal, bool is_first) {
  impl_->stop(signal, is_first);
}

Problem Run::objection_to_suspension() const {
  return impl_->objection_to_suspension();
}

}  // namespace ddprun
