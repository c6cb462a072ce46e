#include "launcher/agent/shared_run.hpp"

#include "launcher/agent/coordinator_link.hpp"
#include "launcher/agent/emit.hpp"
#include "launcher/agent/failure_text.hpp"
#include "launcher/agent/host_search.hpp"
#include "launcher/agent/placement.hpp"
#include "launcher/agent/restart_policy.hpp"
#include "launcher/agent/store_users.hpp"
#include "rendezvous/base/await.hpp"
#include "rendezvous/base/endpoint.hpp"
#include "rendezvous/base/hmac.hpp"
#include "rendezvous/base/random_bytes.hpp"
#include "rendezvous/base/signal_name.hpp"
#include "rendezvous/membership/node_part.hpp"
#include "rendezvous/membership/peer_probe.hpp"
#include "rendezvous/security/crypto.hpp"
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
#include <utility>

namespace ddprun {

namespace asio = boost::asio;
using namespace membership;

namespace {

Time now() {
  return Deadline::Clock::now();
}

std::uint64_t draw_instance() {
  std::uint64_t instance = 0;
  std::memcpy(&instance, random_bytes(sizeof instance).data(), sizeof instance);
  return instance;
}

}  // namespace

class SharedRun::Impl : public std::enable_shared_from_this<Impl> {
 public:
  explicit Impl(const AttemptSurroundings& surroundings)
      : surroundings_(surroundings),
        plan_(surroundings.plan),
        nodes_(*surroundings.plan.nodes),
        search_(surroundings.executor, plan_, store_users(plan_, surroundings.containment),
                warnings_to(surroundings.events)),
        wake_(surroundings.executor),
        ended_(surroundings.executor, Time::max()),
        attempt_ended_(surroundings.executor, Time::max()) {}

  asio::awaitable<RunFinished> run(StartNotice on_start) {
    on_start(plan_.store_port);
    co_await find_host();
    // Nobody can have joined, so nobody need be told.
    if (stop_signal_ != 0) co_return make_finished(interrupted(), plan_);
    if (!host_) co_return finished();
    if (!host_->note().empty()) tell(Note{host_->note()});
    if (nodes_.is_rank_assumed && !host_->is_here()) warn_of_rank();
    if (host_->is_here()) {
      asio::co_spawn(surroundings_.executor, watch_host(shared_from_this()), fail_with_failure());
    }
    link_ = std::make_shared<CoordinatorLink>(surroundings_.executor, plan_, search_.secret(),
                                              listener());
    part_.emplace(make_join(plan_, instance_, host_->is_here()), nodes_.settings, now());
    perform(part_->start(now()));
    if (!outcome_) co_await ended_.async_wait(kAwait);
    if (!failure_) co_return co_await end_together();
    // Killed, but there until their end has been seen.
    if (attempt_ != nullptr) co_await attempt_ended_.async_wait(kAwait);
    co_return finished();
  }

  asio::awaitable<RunFinished> end_together() {
    // The others must hear of the outcome before the coordinator goes.
    link_->close();
    if (has_left_others_) {
      if (attempt_ != nullptr) co_await attempt_ended_.async_wait(kAwait);
    } else {
      auto token = asio::bind_cancellation_slot(left_others_.slot(), asio::use_awaitable);
      try {
        co_await asio::co_spawn(surroundings_.executor, host_->wait_until_over(), std::move(token));
      } catch (const boost::system::system_error&) {
        // The other nodes are not waited for.
      }
    }
    for (const auto& words : host_->last_words()) tell(Warning{"the rendezvous " + words});
    host_.reset();
    co_return make_finished(*outcome_, plan_);
  }

  void forward(int signal) {
    if (attempt_ != nullptr) attempt_->forward(signal);
  }

  bool take_stacks(const std::string& reason) {
    return attempt_ != nullptr && attempt_->take_stacks(reason);
  }

  void stop(int signal, bool is_first) {
    if (is_first) {
      stop_signal_ = signal;
      // The others learn of it before the workers here vanish.
      if (part_) leave(signal);
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
    } else if (host_->is_here()) {
      tell(
          Note{"this node hosts the rendezvous and ends when the workers of the other nodes have "
               "ended; again to end before them"});
    }
  }

  /// Ends what would go on: the coroutines share this object.
  void close() {
    is_closed_ = true;
    wake_.cancel();
    if (link_) link_->close();
    host_.reset();
  }

 private:
  /// Nothing is found if a signal comes first. If the rendezvous' name stays unknown, or this node
  /// cannot listen there, that is the outcome.
  asio::awaitable<void> find_host() {
    auto finding = search_.find(make_join(plan_, instance_, false), follow_office());
    try {
      host_ = co_await std::move(finding);
    } catch (const Error& error) {
      if (error.code() != Errc::network) failure_ = std::current_exception();
      outcome_ = RunOutcome{.result = RunResult::no_rendezvous, .reason = error.what()};
    }
  }

  void warn_of_rank() {
    tell(
        Warning{"--node_rank is missing: this node takes itself for node 0, although the "
                "rendezvous at " +
                store_text(plan_, plan_.store_port) +
                " is elsewhere; each other node needs its own, --node_rank=1 and so on"});
  }

  /// Workers beside a coordinator must not outlive its office, even if this process is stopped.
  etcd::OfficeNotice follow_office() {
    return [weak = weak_from_this()](Time end) {
      if (const auto self = weak.lock()) self->apply(OfficeRenewed{end});
    };
  }

  CoordinatorLink::Listener listener() {
    return {.take =
                [weak = weak_from_this()](const NodeEvent& event) {
                  if (const auto self = weak.lock()) self->take(event);
                },
            .note =
                [weak = weak_from_this()](const std::string& text) {
                  if (const auto self = weak.lock()) self->tell(Note{text});
                }};
  }

  /// By the outcome, unless it is this agent that cannot go on.
  RunFinished finished() const {
    RunFinished finished = make_finished(*outcome_, plan_);
    if (!failure_) return finished;
    finished.result = RunResult::agent_failed;
    finished.exit_code = exit_code_of(failure_);
    return finished;
  }

  RunOutcome interrupted() const {
    return {.result = RunResult::interrupted,
            .scope = OutcomeScope::node,
            .reason = "this node was asked to stop by " + signal_name(stop_signal_),
            .signal = stop_signal_};
  }

  void leave(int signal) {
    apply(AskedToLeave{"was asked to stop by " + signal_name(signal), signal});
  }

  // Decisions and what they lead to.

  void take(const NodeEvent& event) {
    const auto* says = std::get_if<CoordinatorSays>(&event);
    if (says != nullptr && host_) host_->observe(says->message);
    apply(event);
  }

  void apply(const NodeEvent& event) {
    if (is_closed_ || failure_ || !part_) return;
    perform(part_->apply(event, now()));
  }

  void perform(const std::vector<NodeAction>& actions) {
    for (const auto& action : actions) {
      std::visit([this](const auto& value) { act(value); }, action);
      if (failure_) return;
    }
    plan_wake();
  }

  void plan_wake() {
    const auto when = part_->next_wake();
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
    link_->connect(host_->find(connect.not_before), part_->give_up());
  }

  void act(const Disconnect&) { link_->disconnect(); }

  void act(const Say& say) { link_->send(say.message); }

  void act(const StartWorkers& start) {
    asio::co_spawn(surroundings_.executor, live(shared_from_this(), start.round),
                   fail_with_failure());
  }

  void act(const EndWorkers& end) {
    if (attempt_ == nullptr) return;
    if (end.is_orderly) {
      attempt_->wind_up(end.reason);
    } else {
      attempt_->abort(end.reason, end.at_once);
    }
  }

  void act(const ProbePeers& probing) {
    asio::co_spawn(surroundings_.executor, probe(weak_from_this(), probing), asio::detached);
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
      surroundings_.containment.guard_until(guard.end);
    } catch (const Error&) {
      fail(std::current_exception());
    }
  }

  void act(const Announce& announce) {
    if (announce.is_warning) return tell(Warning{announce.text});
    tell(Note{announce.text});
  }

  /// Their agents lose the rendezvous, and kill workers that live when they give it up.
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

  /// A coordinator that cannot go on ends this agent, too, and tells why.
  static asio::awaitable<void> watch_host(std::shared_ptr<Impl> self) {
    co_await self->host_->wait_until_over();
    if (self->host_ && self->host_->failure()) std::rethrow_exception(self->host_->failure());
  }

  /// Nothing is decided any more; run() waits for the end of the workers.
  void fail(const std::exception_ptr& failure) {
    if (failure_) return;
    failure_ = failure;
    wake_.cancel();
    link_->close();
    outcome_ = RunOutcome{.result = RunResult::failed, .reason = failure_text(failure)};
    ended_.cancel();
    if (attempt_ != nullptr) attempt_->abort("this node's agent cannot go on", true);
  }

  // The workers of a round.

  /// Whoever waits for the end of an attempt hears of it however that comes.
  class UnderWay {
   public:
    UnderWay(Impl& run, Attempt& attempt) : run_(run) { run_.attempt_ = &attempt; }
    UnderWay(const UnderWay&) = delete;
    UnderWay& operator=(const UnderWay&) = delete;
    ~UnderWay() {
      run_.attempt_ = nullptr;
      run_.attempt_ended_.cancel();
    }

   private:
    Impl& run_;
  };

  static asio::awaitable<void> live(std::shared_ptr<Impl> self, RoundFormed round) {
    if (self->failure_ || self->has_left_others_) co_return;
    AttemptFacts facts{.attempt = round.round,
                       .restart_count = round.restarts_used,
                       .have_workers_started = self->have_workers_started_,
                       .placement = make_placement(round, self->link_->peer_address()),
                       .store_port = round.store_port,
                       .run_key = self->key_of_round(round.round)};
    self->tell_of_round(facts);
    Attempt attempt(self->surroundings_, facts,
                    [self](const std::string& reason) { self->apply(OwnWorkersFailing{reason}); });
    std::optional<UnderWay> under_way(std::in_place, *self, attempt);
    AttemptEnd end = co_await attempt.run();
    under_way.reset();
    if (end.have_workers_started) self->have_workers_started_ = true;
    self->apply(make_end(std::move(end), self->nodes_.name));
  }

  /// Known to the workers of this round alone.
  std::optional<Digest> key_of_round(int round) const {
    const auto* secret = search_.secret();
    if (secret == nullptr) return std::nullopt;
    const auto key = security::derive_key(secret->bytes(), plan_.run_id,
                                          "ddprun workers of round " + std::to_string(round));
    Digest bytes{};
    std::copy(key.bytes().begin(), key.bytes().end(), bytes.begin());
    return bytes;
  }

  void tell_of_round(const AttemptFacts& facts) {
    const auto& place = facts.placement;
    tell(RoundJoined{.round = facts.attempt,
                     .node_rank = place.node_rank,
                     .node_count = place.node_count,
                     .first_rank = place.first_rank,
                     .local_world_size = static_cast<int>(plan_.workers.size()),
                     .world_size = place.world_size,
                     .store = to_string(StoreEndpoint{place.master_addr, facts.store_port})});
    tell(AttemptStarted{
        .attempt = facts.attempt,
        .restarts_left = restarts_left(facts.restart_count, nodes_.settings.restarts)});
  }

  void tell(const Event& event) { emit(surroundings_.events, event); }

  const AttemptSurroundings& surroundings_;
  const LaunchPlan& plan_;
  const NodesPlan& nodes_;
  const std::uint64_t instance_ = draw_instance();
  HostSearch search_;
  asio::steady_timer wake_;
  asio::steady_timer ended_;          ///< cancelled when there is an outcome
  asio::steady_timer attempt_ended_;  ///< cancelled when an attempt has ended
  std::unique_ptr<Host> host_;
  std::shared_ptr<CoordinatorLink> link_;  ///< once the host is known
  std::optional<NodePart> part_;
  Attempt* attempt_ = nullptr;
  bool have_workers_started_ = false;
  int stop_signal_ = 0;
  bool has_killed_ = false;                ///< the workers, when it was asked to stop again
  asio::cancellation_signal left_others_;  ///< ends the host's wait for the other nodes
  bool has_left_others_ = false;
  bool is_closed_ = false;
  std::optional<RunOutcome> outcome_;
  std::exception_ptr failure_;
};

SharedRun::SharedRun(const AttemptSurroundings& surroundings)
    : impl_(std::make_shared<Impl>(surroundings)) {}

SharedRun::~SharedRun() {
  impl_->close();
}

asio::awaitable<RunFinished> SharedRun::run(StartNotice on_start) {
  return impl_->run(std::move(on_start));
}

void SharedRun::forward(int signal) {
  impl_->forward(signal);
}

bool SharedRun::take_stacks(const std::string& reason) {
  return impl_->take_stacks(reason);
}

void SharedRun::stop(int signal, bool is_first) {
  impl_->stop(signal, is_first);
}

std::string SharedRun::objection_to_suspension() const {
  return "the other nodes would go on without this one (Ctrl-C leaves the run)";
}

}  // namespace ddprun
