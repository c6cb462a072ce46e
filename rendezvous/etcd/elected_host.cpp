#include "rendezvous/etcd/elected_host.hpp"

#include "rendezvous/base/await.hpp"
#include "rendezvous/base/with_deadline.hpp"
#include "rendezvous/etcd/campaign.hpp"
#include "rendezvous/etcd/election.hpp"
#include "rendezvous/etcd/request_deadline.hpp"

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <utility>
#include <vector>

namespace ddprun::etcd {

namespace asio = boost::asio;
using membership::Found;
using membership::Host;
using membership::HostChoice;
using membership::Join;
using membership::seconds_text;
using membership::Time;

namespace {

/// Timeout for connecting to a coordinator: its machine may be lost, and another is elected within
/// a lease.
constexpr auto kConnectTimeout = std::chrono::seconds(1);

/// Time for a running search to notice its cancellation.
constexpr auto kSearchEndTimeout = std::chrono::seconds(2);

/// Time for which an unreachable node does not run for election, so that others are elected.
constexpr int kRestInLeases = 2;

/// Longer waits are reported.
constexpr auto kQuietWait = std::chrono::seconds(1);

/// Returns null without TLS.
std::shared_ptr<const security::TlsContext> tls_of(const EtcdSettings& etcd) {
  if (!etcd.tls) return nullptr;
  return std::make_shared<const security::TlsContext>(*etcd.tls, "--rdzv_conf=");
}

class Election : public std::enable_shared_from_this<Election> {
 public:
  Election(asio::any_io_executor executor, EtcdSettings etcd, HostChoice choice, Join self,
           RenewalCallback on_renewal, Log log)
      : etcd_(std::move(etcd)),
        choice_(std::move(choice)),
        self_(std::move(self)),
        on_renewal_(std::move(on_renewal)),
        log_(std::move(log)),
        keys_(etcd_.prefix, self_.run_id),
        trust_(std::make_shared<RunTrust>(choice_.admission.secret, keys_, log_)),
        client_(std::make_shared<Client>(std::move(executor), etcd_.endpoints, tls_of(etcd_))),
        pause_(client_->executor()),
        search_end_(client_->executor(), Time::max()) {}

  static asio::awaitable<Found> find(std::shared_ptr<Election> self, Time not_before) {
    const Searching searching(*self);
    self->note_own_failure();
    Found found = co_await self->search(not_before);
    co_return found;
  }

  void observe(const membership::CoordinatorMessage& message) { trust_->observe(message); }

  void resign() {
    if (std::exchange(is_leaving_, true)) return hurry();
    pause_.cancel();
    patience_end_ = Deadline::after(patience());
    if (term_ && !term_->has_ended()) {
      term_->coordinator().resign(resignation());
    }
  }

  static asio::awaitable<void> wait_until_over(std::shared_ptr<Election> self) {
    const bool has_resigned = std::exchange(self->is_leaving_, true);
    self->pause_.cancel();
    if (self->is_searching_) {
      self->search_end_.expires_after(kSearchEndTimeout);
      co_await self->search_end_.async_wait(kAwait);
    }
    const auto term = self->term_;
    if (!term || term->has_ended()) co_return;
    auto over = wait_for_others(self, term);
    co_await std::move(over);
    if (term->has_ended()) co_return;
    const bool is_abandoned = has_resigned && !term->coordinator().has_nodes();
    co_await Term::give_back(term, is_abandoned);
  }

  std::vector<std::string> refusals() const {
    return term_ ? term_->refusals() : std::vector<std::string>();
  }

  void close() {
    is_leaving_ = true;
    pause_.cancel();
    if (term_) term_->end();
  }

 private:
  /// Time limit for the workers of other nodes, which are asked to stop at the same time as this
  /// node's and have the same grace period.
  Deadline::Duration patience() const {
    return choice_.settings.shutdown_timeout + choice_.settings.farewell_timeout;
  }

  void hurry() {
    is_hurried_ = true;
    hurry_.emit(asio::cancellation_type::terminal);
  }

  /// Waits without limit after an outcome; after resign(), until the limit.
  static asio::awaitable<void> wait_for_others(std::shared_ptr<Election> self,
                                               std::shared_ptr<Term> term) {
    const auto limit = self->patience_end_;
    const auto quiet = limit.is_never() ? limit : Deadline::after(kQuietWait);
    auto soon = term->coordinator().wait_until_over();
    co_await with_deadline(std::move(soon), quiet);
    const bool is_over = term->has_ended() || term->coordinator().is_over();
    if (is_over || self->is_hurried_) co_return;
    write_log(self->log_, LogLevel::warn,
              "this node hosts the rendezvous and waits until the workers of the others have "
              "ended, for " +
                  seconds_text(std::chrono::ceil<std::chrono::seconds>(limit.remaining())) +
                  " at most");
    auto over = with_deadline(term->coordinator().wait_until_over(), limit);
    auto token = asio::bind_cancellation_slot(self->hurry_.slot(), asio::use_awaitable);
    try {
      co_await asio::co_spawn(self->client_->executor(), std::move(over), std::move(token));
    } catch (const boost::system::system_error&) {
      // A second resign() interrupts the wait.
    }
  }

  /// Notifies waiters of the end of a search on every path.
  class Searching {
   public:
    explicit Searching(Election& election) : election_(election) { election_.is_searching_ = true; }
    Searching(const Searching&) = delete;
    Searching& operator=(const Searching&) = delete;
    ~Searching() {
      election_.is_searching_ = false;
      election_.search_end_.cancel();
    }

   private:
    Election& election_;
  };

  asio::awaitable<Found> search(Time not_before) {
    while (!is_leaving_) {
      auto looking = client_->commit(Transaction{.read = keys_.state()}, request_deadline());
      const auto answer = co_await std::move(looking);
      const auto snapshot = sight_of(answer);
      if (const auto* problem = std::get_if<Problem>(&snapshot)) {
        co_return co_await give_up(problem->text, not_before);
      }
      const bool is_in_term = is_own(tried_);
      if (is_in_term &&
          is_unreachable({elected_, has_nodes(), own_failures_}, Deadline::Clock::now())) {
        co_return co_await make_way(not_before);
      }
      const auto move = decide_move(std::get<EtcdSnapshot>(snapshot), self_, tried_,
                                    not_before <= Deadline::Clock::now());
      if (const auto* go = std::get_if<GoTo>(&move)) {
        tried_ = go->created;
        sent_ = Deadline::Clock::now();
        co_return Found{.endpoint = go->endpoint,
                        .node = std::get<EtcdSnapshot>(snapshot).holder->node,
                        .term_end = term_end(go->created),
                        .connect_timeout = kConnectTimeout,
                        .note = std::exchange(note_, {})};
      }
      if (const auto* over = std::get_if<AcceptOutcome>(&move)) {
        const auto outcome = over->outcome;
        std::string config;
        if (over->has_other_config) config = co_await read_config();
        co_return Found{.outcome = outcome, .config = std::move(config)};
      }
      std::string problem;
      if (const auto* change = std::get_if<AwaitChange>(&move)) {
        co_await await_change(change->first, not_before);
      } else if (const auto* removal = std::get_if<AwaitRemoval>(&move)) {
        co_await await_change(removal->first, not_before);
        if (not_before <= Deadline::Clock::now()) co_return Found{.problem = kForeignHolder};
      } else if (Deadline::Clock::now() < rest_end_) {
        co_await await_change(std::get<EtcdSnapshot>(snapshot).revision + 1, not_before);
        if (not_before <= Deadline::Clock::now()) co_return Found{.problem = unreachable_};
      } else {
        problem = co_await stand(std::get<EtcdSnapshot>(snapshot).ignored_outcome);
      }
      if (!problem.empty()) co_return co_await give_up(problem, not_before);
    }
    co_return Found{.problem = "this node leaves the run"};
  }

  bool is_own(Revision created) const {
    return term_ && !term_->has_ended() && term_->created() == created;
  }

  bool has_nodes() const { return is_own(tried_) && term_->coordinator().has_nodes(); }

  /// A search shortly after the last one follows a failure to connect; a later one, the loss of a
  /// connection.
  void note_own_failure() {
    const bool is_failure =
        is_own(tried_) && !has_nodes() && Deadline::Clock::now() - sent_ <= 2 * kConnectTimeout;
    own_failures_ = is_failure ? own_failures_ + 1 : 0;
  }

  /// Steps down, and does not run for election until others had time to.
  asio::awaitable<Found> make_way(Time not_before) {
    own_failures_ = 0;
    unreachable_ = "this node was elected to host the rendezvous and cannot be reached at " +
                   own_address_ +
                   ", not even from this machine; set --local_addr to another address";
    has_logged_ = true;
    write_log(log_, LogLevel::warn, unreachable_ + "; it resigns as coordinator");
    const auto term = term_;
    auto returning = Term::give_back(term, false);
    co_await std::move(returning);
    rest_end_ = Deadline::Clock::now() + kRestInLeases * etcd_.lease;
    auto giving_up = give_up(unreachable_, not_before);
    co_return co_await std::move(giving_up);
  }

  /// Returns the end of the coordinator's term if it is this node's.
  Time term_end(Revision created) const {
    return is_own(created) ? term_->term_end() : Time::max();
  }

  /// Returns the outline of the run's configuration, for comparison with this node's; empty if
  /// unavailable.
  asio::awaitable<std::string> read_config() {
    Transaction look;
    look.read = Range{.key = keys_.config()};
    auto reading = client_->commit(std::move(look), request_deadline());
    const auto answer = co_await std::move(reading);
    const auto* done = std::get_if<TransactionAnswer>(&answer);
    co_return done == nullptr ? std::string() : trust_->config_of(*done);
  }

  std::string resignation() const { return self_.name + ", which hosts the rendezvous, leaves"; }

  Result<EtcdSnapshot> sight_of(const Result<TransactionAnswer>& answer) {
    if (const auto* problem = std::get_if<Problem>(&answer)) return *problem;
    return trust_->read(std::get<TransactionAnswer>(answer));
  }

  /// Delays the next search, to limit the load on a failing etcd.
  asio::awaitable<Found> give_up(std::string problem, Time not_before) {
    if (!std::exchange(has_logged_, true)) {
      write_log(log_, LogLevel::warn, problem + "; trying again");
    }
    pause_.expires_at(not_before);
    if (!is_leaving_) co_await pause_.async_wait(kAwait);
    co_return Found{.problem = problem};
  }

  asio::awaitable<void> await_change(Revision first, Time not_before) {
    const Range coordinator{keys_.coordinator()};
    const auto deadline = Deadline::after(not_before - Deadline::Clock::now());
    auto waiting = client_->wait_for_change(coordinator, first, deadline);
    const bool has_changed = co_await std::move(waiting);
    if (has_changed || is_leaving_) co_return;
    pause_.expires_at(not_before);
    co_await pause_.async_wait(kAwait);
  }

  /// Returns why the election failed; empty if this or another node was elected.
  asio::awaitable<std::string> stand(Revision ignored_outcome) {
    if (term_) term_->end();
    Candidate candidate{.node = {.name = self_.name, .instance = self_.instance},
                        .settings = choice_.settings,
                        .admission = choice_.admission,
                        .trust = trust_,
                        .ignored_outcome = ignored_outcome,
                        .on_renewal = on_renewal_};
    auto standing = campaign(client_, etcd_, std::move(candidate), log_);
    auto result = co_await std::move(standing);
    if (!result.term) co_return result.problem;
    note_ = result.note;
    own_address_ = result.address;
    elected_ = Deadline::Clock::now();
    term_ = std::move(result.term);
    if (is_leaving_ && !term_->has_ended()) term_->coordinator().resign(resignation());
    co_return std::string();
  }

  const EtcdSettings etcd_;
  const HostChoice choice_;
  const Join self_;
  const RenewalCallback on_renewal_;
  const Log log_;
  const RunKeys keys_;
  const std::shared_ptr<RunTrust> trust_;
  const std::shared_ptr<Client> client_;
  asio::steady_timer pause_;
  asio::steady_timer search_end_;  ///< cancelled when a search has ended
  std::shared_ptr<Term> term_;     ///< latest term of this node
  Revision tried_ = 0;
  Time sent_;                ///< when the last search returned this coordinator
  Time elected_;             ///< when this node was last elected
  std::string own_address_;  ///< address of this node's coordinator
  int own_failures_ = 0;     ///< consecutive failures to connect to it
  std::string unreachable_;  ///< why this node last resigned
  Time rest_end_;            ///< this node does not run for election before
  std::string note_;
  bool has_logged_ = false;
  bool is_searching_ = false;
  bool is_leaving_ = false;
  Deadline patience_end_ = Deadline::never();  ///< limit of waiting for the workers of other nodes
  asio::cancellation_signal hurry_;            ///< ends that wait early
  bool is_hurried_ = false;
};

class ElectedHost : public Host {
 public:
  explicit ElectedHost(std::shared_ptr<Election> election) : election_(std::move(election)) {}
  ~ElectedHost() override { election_->close(); }

  bool is_here() const override { return false; }
  const std::string& note() const override { return note_; }
  asio::awaitable<Found> find(Time not_before) override {
    return Election::find(election_, not_before);
  }
  void resign() override { election_->resign(); }
  void observe(const membership::CoordinatorMessage& message) override {
    election_->observe(message);
  }
  asio::awaitable<void> wait_until_over() override { return Election::wait_until_over(election_); }
  std::vector<std::string> refusals() const override { return election_->refusals(); }

 private:
  std::shared_ptr<Election> election_;  ///< shared with its coroutines
  std::string note_;
};

}  // namespace

std::unique_ptr<Host> elect_host(asio::any_io_executor executor, EtcdSettings etcd,
                                 HostChoice choice, Join self, RenewalCallback on_renewal,
                                 Log log) {
  return std::make_unique<ElectedHost>(
      std::make_shared<Election>(std::move(executor), std::move(etcd), std::move(choice),
                                 std::move(self), std::move(on_renewal), std::move(log)));
}

}  // namespace ddprun::etcd
