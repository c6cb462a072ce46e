// Decides which values in etcd an agent accepts. In an open run, all values. In a run with a
// secret, values sealed with it. Once a coordinator has proven that it knows the secret and has
// sent the run's nonce, only values of that run, and no record older than the coordinator's data.
// Other values are ignored and reported. Performs no I/O except logging.
#pragma once

#include "rendezvous/etcd/run_keys.hpp"
#include "rendezvous/etcd/value_seal.hpp"
#include "rendezvous/membership/messages.hpp"
#include "rendezvous/security/secret.hpp"
#include <ddprun/log.hpp>

#include <map>
#include <memory>
#include <optional>
#include <string>

namespace ddprun::etcd {

/// Problem of an election that is blocked by a foreign key.
inline constexpr const char* kForeignHolder =
    "etcd's key of the coordinator is not sealed with this run's secret; compare --secret_file on "
    "all nodes, or use another --rdzv_id";

class RunTrust {
 public:
  /// `secret` null: open run.
  RunTrust(const security::Secret* secret, RunKeys keys, Log log);

  /// Observes a message of an authenticated coordinator.
  void observe(const membership::CoordinatorMessage& message);

  /// Returns the seal for the values of a coordinator elected on this node: with the known nonce,
  /// or with a new one. The nonce is not taken from etcd, which may return values of an earlier
  /// run. Empty in an open run.
  RunSeal seal_of_candidate() const;

  /// Reads a snapshot, like read_snapshot(). Returns a refusal if the run succeeded according to an
  /// outcome that may belong to an earlier run, unless there is a coordinator to ask.
  Result<EtcdSnapshot> read(const TransactionAnswer& answer, LeaseId own_lease = 0);

  /// Returns the outline of the configuration in an answer, without its seal; empty if it is absent
  /// or ignored.
  std::string config_of(const TransactionAnswer& answer);

 private:
  /// Returns nullopt if the value is not accepted, which is reported.
  std::optional<OpenedValue> open(const KeyValue& key);
  Result<EtcdSnapshot> read_opened(const TransactionAnswer& answer, LeaseId own_lease);
  bool is_own_key(const std::string& key) const;
  bool is_of_this_run(const Lineage& lineage) const;
  void check_record(EtcdSnapshot& snapshot, const TransactionAnswer& answer);
  void check_outcome(EtcdSnapshot& snapshot) const;
  void report(const KeyValue& key, const std::string& problem);

  std::shared_ptr<const ValueSeal> seal_;  ///< null: open run
  const RunKeys keys_;
  const Log log_;
  RunNonce nonce_;    ///< nonce of the run, from a coordinator or drawn for one; empty: unknown
  int round_ = -1;    ///< latest round announced by a coordinator with that nonce
  int restarts_ = 0;  ///< restarts at that time
  struct Ignored {
    Revision modified = -1;  ///< revision of the last ignored value
    unsigned values = 0;
  };
  std::map<std::string, Ignored> ignored_;  ///< by key; a run has few
};

}  // namespace ddprun::etcd
