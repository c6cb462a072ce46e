// Keys of a run in etcd, with values as text that is readable with etcdctl. Pure; malformed values
// return a Problem, and nothing throws.
//
//   /ddprun/RUN/config       the configuration file that all nodes must have
//   /ddprun/RUN/coordinator  the coordinator; deleted when its agent is lost
//   /ddprun/RUN/record       what the next coordinator must know
//   /ddprun/RUN/outcome      how the run has ended
#pragma once

#include "rendezvous/etcd/messages.hpp"
#include "rendezvous/etcd/value_seal.hpp"
#include "rendezvous/membership/failover_state.hpp"
#include "rendezvous/membership/messages.hpp"
#include <ddprun/store.hpp>

#include <optional>
#include <string>

namespace ddprun::etcd {

class RunKeys {
 public:
  RunKeys(const std::string& prefix, const std::string& run_id);

  std::string config() const { return base_ + "config"; }
  std::string coordinator() const { return base_ + "coordinator"; }
  std::string record() const { return base_ + "record"; }
  std::string outcome() const { return base_ + "outcome"; }

  /// Returns the range of all keys except the configuration, which is long and sorts first.
  Range state() const { return {.key = coordinator(), .end = prefix_range(base_).end}; }

 private:
  std::string base_;
};

/// The coordinator of a run and its endpoint.
struct Holder {
  std::string node;
  StoreEndpoint endpoint;
  Revision created = 0;
  LeaseId lease = 0;

  bool operator==(const Holder&) const = default;
};

/// A consistent snapshot of a run's keys in etcd.
struct EtcdSnapshot {
  Revision revision = 0;
  std::optional<Holder> holder{};
  std::optional<membership::RunRecord> record{};
  std::optional<membership::RunOutcome> outcome{};

  // For a run with a secret; see run_trust.hpp.
  Lineage lineage{};               ///< nonces of the record
  Revision ignored_outcome = 0;    ///< revision of an outcome that is not accepted; 0: none
  bool is_holder_ignored = false;  ///< there is a coordinator's key that is not accepted

  bool operator==(const EtcdSnapshot&) const = default;
};

std::string holder_text(const std::string& node, const StoreEndpoint& endpoint);
std::string record_text(const membership::RunRecord& record);
/// Returns as many failures (root cause first) and collectives as fit into kOutcomeBytesMax.
std::string outcome_text(const membership::RunOutcome& outcome);

/// A record that cannot be read is a problem only where it is needed: if the run has neither a
/// outcome nor a coordinator, or the coordinator is the caller, whose lease is `own_lease`. Another
/// coordinator still knows the record and writes it again.
Result<EtcdSnapshot> read_snapshot(const TransactionAnswer& answer, const RunKeys& keys,
                                   LeaseId own_lease = 0);

}  // namespace ddprun::etcd
