#include "rendezvous/etcd/term.hpp"

#include "rendezvous/base/await.hpp"
#include "rendezvous/etcd/record_bounds.hpp"
#include "rendezvous/etcd/request_deadline.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/post.hpp>

#include <algorithm>
#include <utility>

namespace ddprun::etcd {

namespace asio = boost::asio;
using membership::KeepRecord;
using Time = HeldLease::Time;

namespace {

/// Pause between retries of a refused request; a lease allows for many.
constexpr auto kRetryPause = std::chrono::milliseconds(100);

/// Timeout of a request that is retried: a fraction of the shortest lease.
constexpr auto kRenewalTimeout = std::chrono::seconds(1);

/// Time before the end of the leadership at which writes end.
constexpr auto kTellingTime = std::chrono::milliseconds(100);

/// Maximum time to write an outcome before the nodes are notified of it nevertheless: long enough
/// for etcd to elect a leader, and shorter than the time for which nodes are awaited after it.
constexpr auto kOutcomeTimeout = std::chrono::seconds(2);

Deadline deadline_at(Time time) {
  return Deadline::after(
      std::min<Deadline::Duration>(time - Deadline::Clock::now(), kRenewalTimeout));
}

}  // namespace

RecordWrite judge_write(const TransactionAnswer& answer, const RunKeys& keys, Revision created,
                        const std::string& text) {
  using End = RecordWrite::End;
  if (answer.has_succeeded) return {End::written, answer.revision};
  RecordWrite write{.end = End::not_elected};
  bool is_same = false;
  for (const auto& key : answer.keys) {
    if (key.key == keys.coordinator() && key.created == created) write.end = End::changed;
    if (key.key != keys.record()) continue;
    write.modified = key.modified;
    is_same = key.value == text;
  }
  if (is_same && write.end == End::changed) write.end = End::written;
  return write;
}

Term::Term(std::shared_ptr<Client> client, TermFacts facts,
           std::unique_ptr<membership::CoordinatorServer> seat, RenewalCallback on_renewal, Log log)
    : client_(std::move(client)),
      facts_(std::move(facts)),
      server_(std::move(seat)),
      on_renewal_(std::move(on_renewal)),
      log_(std::move(log)),
      timer_(client_->executor()) {}

void Term::begin(membership::Settings settings, std::optional<membership::RunRecord> record) {
  membership::LeadershipTerm leadership{.record = std::move(record)};
  leadership.is_held = [weak = weak_from_this()] {
    const auto self = weak.lock();
    return self && !self->has_ended_ && self->facts_.leadership.is_held(Deadline::Clock::now());
  };
  leadership.keep = [weak = weak_from_this()](KeepRecord kept) {
    return keep_record(weak.lock(), std::move(kept));
  };
  server_->begin(std::move(settings), std::move(leadership));
  // These run immediately until they wait, and may lose the leadership.
  asio::co_spawn(client_->executor(), keep_leases(shared_from_this()), resign_on_failure());
  asio::co_spawn(client_->executor(), watch_coordinator(shared_from_this()), resign_on_failure());
}

/// On a failure such as lack of memory, lets another node be elected.
std::function<void(std::exception_ptr)> Term::resign_on_failure() {
  return [self = shared_from_this()](const std::exception_ptr& failure) {
    try {
      if (failure) std::rethrow_exception(failure);
    } catch (const std::exception& error) {
      self->lose_term(error.what());
    }
  };
}

asio::awaitable<void> Term::watch_coordinator(std::shared_ptr<Term> self) {
  if (self->has_ended_) co_return;
  auto over = self->server_->coordinator().wait_until_over();
  co_await std::move(over);
  if (self->has_ended_) co_return;
  if (const auto failure = self->server_->coordinator().failure()) std::rethrow_exception(failure);
}

void Term::end() {
  has_ended_ = true;
  timer_.cancel();
  refusals_ = refusals();
  server_.reset();
}

std::vector<std::string> Term::refusals() const {
  return server_ ? server_->coordinator().refusals() : refusals_;
}

void Term::lose_term(const std::string& reason) {
  if (has_ended_) return;
  write_log(log_, LogLevel::warn, "this node no longer hosts the rendezvous: " + reason);
  end();
}

asio::awaitable<void> Term::pause(Time until) {
  timer_.expires_at(until);
  co_await timer_.async_wait(kAwait);
}

asio::awaitable<void> Term::keep_leases(std::shared_ptr<Term> self) {
  auto& leadership = self->facts_.leadership;
  auto& record = self->facts_.record;
  while (!self->has_ended_) {
    if (!leadership.is_held(Deadline::Clock::now())) co_return self->lose_term(self->problem_);
    const auto sent = Deadline::Clock::now();
    // Renew the leadership first: the record's lease is long.
    const bool is_record = sent < leadership.next_renewal() && record.next_renewal() <= sent;
    auto& lease = is_record ? record : leadership;
    if (lease.next_renewal() > sent) {
      co_await self->pause(std::min(leadership.next_renewal(), record.next_renewal()));
      continue;
    }
    auto renewing = self->client_->renew(lease.id(), deadline_at(leadership.end()));
    const auto renewed = co_await std::move(renewing);
    if (self->has_ended_) co_return;  // the term has ended
    if (const auto* problem = std::get_if<Problem>(&renewed)) {
      self->problem_ = problem->text;
      co_await self->pause(std::min(Deadline::Clock::now() + kRetryPause, leadership.end()));
    } else if (const auto time = std::get<std::chrono::seconds>(renewed); time.count() > 0) {
      lease.renew(sent, time);
      if (!is_record && self->on_renewal_) self->on_renewal_(leadership.end());
    } else {
      co_return self->lose_term("its lease has ended in etcd");
    }
  }
}

asio::awaitable<bool> Term::keep_record(std::shared_ptr<Term> self, KeepRecord kept) {
  if (!self || self->is_stepping_down_) co_return false;
  const auto& facts = self->facts_;
  kept.record.host = facts.node;
  const auto text = facts.seal(facts.keys.record(), record_text(kept.record));
  self->record_.clear();
  auto transaction = self->transaction_of(text);
  transaction.read = facts.keys.state();
  if (kept.outcome) {
    const auto key = facts.keys.outcome();
    transaction.puts.push_back(
        {key, facts.seal(key, outcome_text(*kept.outcome)), facts.record.id()});
  }
  const bool shows_config =
      !self->has_shown_config_ && !facts.config.empty() && facts.config.size() <= kConfigBytesMax;
  if (shows_config) {
    const auto key = facts.keys.config();
    transaction.puts.push_back({key, facts.seal(key, facts.config), facts.record.id()});
  }
  // Use the current end of the leadership: it moves while renewals succeed and only this write
  // fails.
  auto limit = facts.leadership.end() - kTellingTime;
  if (kept.outcome) limit = std::min<Time>(limit, Deadline::Clock::now() + kOutcomeTimeout);
  std::string problem = "its lease is about to end";
  asio::steady_timer retry(self->client_->executor());
  while (!self->has_ended_ && Deadline::Clock::now() < limit) {
    // A request that etcd performs late, after its retry, must not replace a newer record.
    auto guarded = transaction;
    guarded.conditions.push_back({.key = facts.keys.record(), .modified = self->record_modified_});
    auto committing = self->client_->commit(std::move(guarded), deadline_at(limit));
    const auto answer = co_await std::move(committing);
    if (const auto* done = std::get_if<TransactionAnswer>(&answer)) {
      const auto write = judge_write(*done, facts.keys, facts.created, text);
      self->record_modified_ = write.modified;
      if (write.end == RecordWrite::End::changed) continue;
      const bool is_written = write.end == RecordWrite::End::written;
      if (!is_written) self->lose_term("another node has been elected");
      self->has_shown_config_ = true;
      if (is_written && !kept.outcome) self->record_ = text;
      co_return is_written;
    }
    problem = std::get<Problem>(answer).text;
    retry.expires_after(kRetryPause);
    co_await retry.async_wait(kAwait);
  }
  // No other node can have been elected yet, and the connected nodes should receive the outcome.
  if (kept.outcome) co_return !self->has_ended_;
  // Without its record the coordinator must not act. Posted, since the calling coordinator may
  // still be starting.
  co_await asio::post(self->client_->executor(), kAwait);
  self->lose_term("the run's record cannot be written: " + problem);
  co_return false;
}

/// Performed only while this node is the coordinator.
Transaction Term::transaction_of(std::string record) const {
  return {.conditions = {{facts_.keys.coordinator(), facts_.created}},
          .puts = {{facts_.keys.record(), std::move(record), facts_.record.id()}}};
}

asio::awaitable<void> Term::rewrite_record(std::shared_ptr<Term> self, Deadline deadline) {
  if (self->record_.empty()) co_return;
  auto committing = self->client_->commit(self->transaction_of(self->record_), deadline);
  // Without an answer, the record is probably unchanged.
  co_await std::move(committing);
}

asio::awaitable<void> Term::give_back(std::shared_ptr<Term> self, bool is_abandoned) {
  if (self->has_ended_) co_return;
  // This rewrite could overwrite a later record.
  self->is_stepping_down_ = true;
  if (is_abandoned) {
    auto forgetting = self->client_->revoke(self->facts_.record.id(), revocation_deadline());
    co_await std::move(forgetting);
  } else {
    auto rewriting = rewrite_record(self, revocation_deadline());
    co_await std::move(rewriting);
  }
  auto revoking = self->client_->revoke(self->facts_.leadership.id(), revocation_deadline());
  co_await std::move(revoking);
  self->end();
}

}  // namespace ddprun::etcd
