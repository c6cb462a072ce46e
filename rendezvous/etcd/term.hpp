// One term of a coordinator, from its election to the end of its lease. Runs on the executor's
// single thread.
#pragma once

#include "rendezvous/etcd/client.hpp"
#include "rendezvous/etcd/held_lease.hpp"
#include "rendezvous/etcd/run_keys.hpp"
#include "rendezvous/membership/coordinator_server.hpp"
#include "rendezvous/membership/failover_state.hpp"

#include <boost/asio/steady_timer.hpp>

#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace ddprun::etcd {

struct TermFacts {
  RunKeys keys;
  membership::PastNode node;  ///< elected node
  Revision created = 0;       ///< creation of the coordinator's key, which proves the election
  HeldLease leadership;       ///< lease of that key
  HeldLease record;           ///< lease of the keys that outlive the coordinator
  RunSeal seal{};             ///< seal of all values it writes
  std::string config{};       ///< outline of the configuration for nodes with another one
};

/// Result of a write of the record.
struct RecordWrite {
  enum class End {
    written,
    changed,     ///< not written: the record has another revision than expected
    not_elected  ///< not written: this node is no longer the coordinator
  } end = End::written;
  Revision modified = 0;  ///< revision of the record; 0: it does not exist

  bool operator==(const RecordWrite&) const = default;
};

/// Judges the write of `text` by a term whose election created the coordinator's key in `created`.
/// A write that is performed twice counts as written. Pure.
RecordWrite judge_write(const TransactionAnswer& answer, const RunKeys& keys, Revision created,
                        const std::string& text);

/// Receives the new end of the leadership after each renewal.
using RenewalCallback = std::function<void(HeldLease::Time end)>;

class Term : public std::enable_shared_from_this<Term> {
 public:
  /// `client` is shared, since it must outlive the term's coroutines.
  Term(std::shared_ptr<Client> client, TermFacts facts,
       std::unique_ptr<membership::CoordinatorServer> seat, RenewalCallback on_renewal, Log log);

  /// Starts to coordinate, from the record if there is one, and to renew the leases. The term may
  /// already have ended when this returns.
  void begin(membership::Settings settings, std::optional<membership::RunRecord> record);

  /// Closes all connections and stops renewing; the leases expire. May be called twice.
  void end();
  bool has_ended() const { return has_ended_; }

  /// Returns the revision of the election.
  Revision created() const { return facts_.created; }

  /// Returns the time until which no other node can be elected.
  HeldLease::Time term_end() const { return facts_.leadership.end(); }

  /// Returns the refused nodes and reasons, one line each.
  std::vector<std::string> refusals() const;

  /// REQUIRES: the term has not ended.
  membership::Coordinator& coordinator() { return server_->coordinator(); }

  /// Steps down before the lease ends, for another to be elected at once. From this call on no
  /// further record is written. The record stays for a while, and is written once more in case it
  /// was damaged in etcd, unless `is_abandoned`: no node continues the run. Sends two requests of
  /// at most kRevocationTimeout each: returns after 2 s if etcd does not answer.
  static boost::asio::awaitable<void> give_back(std::shared_ptr<Term> self, bool is_abandoned);

 private:
  static boost::asio::awaitable<void> watch_coordinator(std::shared_ptr<Term> self);
  static boost::asio::awaitable<void> keep_leases(std::shared_ptr<Term> self);
  static boost::asio::awaitable<bool> keep_record(std::shared_ptr<Term> self,
                                                  membership::KeepRecord record);
  static boost::asio::awaitable<void> rewrite_record(std::shared_ptr<Term> self, Deadline deadline);
  Transaction transaction_of(std::string record) const;
  std::function<void(std::exception_ptr)> resign_on_failure();
  boost::asio::awaitable<void> pause(HeldLease::Time until);
  void lose_term(const std::string& reason);

  std::shared_ptr<Client> client_;
  TermFacts facts_;
  std::unique_ptr<membership::CoordinatorServer> server_;
  const RenewalCallback on_renewal_;
  Log log_;
  boost::asio::steady_timer timer_;
  std::string problem_;           ///< problem of the last renewal
  Revision record_modified_ = 0;  ///< last known revision of the record in etcd
  std::string record_;  ///< value of the record in etcd; empty during a write and after an outcome
  bool is_stepping_down_ = false;
  bool has_shown_config_ = false;
  bool has_ended_ = false;
  std::vector<std::string> refusals_;  ///< set when the term ends
};

}  // namespace ddprun::etcd
