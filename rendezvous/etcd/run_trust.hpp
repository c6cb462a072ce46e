// Which values in etcd an agent accepts. In an open run all of them. In a run with a secret those
// that were sealed with it; and, once a coordinator has proved that it knows the secret and has
// told the nonce of the run, only those of that run, and no record that is older than what it has
// told. Others are ignored, as if they were not there, and reported. Performs no I/O but the log's.
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

/// Of an election that cannot be held.
inline constexpr const char* kForeignHolder =
    "etcd's key of the coordinator is not sealed with this run's secret; compare --secret_file on "
    "all nodes, or use another --rdzv_id";

class RunTrust {
 public:
  /// `secret` null: the run is open.
  RunTrust(const security::Secret* secret, RunKeys keys, Log log);

  /// A message of a coordinator that has proved that it knows the secret.
  void observe(const membership::CoordinatorMessage& message);

  /// What a coordinator on this node seals its values with if it is elected now: the nonce that
  /// this node knows, or a new one. The latter is not taken from etcd, which may return the values
  /// of an earlier run. Empty in an open run.
  RunSeal seal_of_candidate() const;

  /// What is seen, as by read_snapshot(). If the run succeeded according to an outcome that may be
  /// of an earlier run, there is a refusal instead, unless a coordinator is there to be asked.
  Result<EtcdSnapshot> read(const TransactionAnswer& answer, LeaseId own_lease = 0);

  /// The outline of the configuration in an answer, without its seal; empty if there is none, or
  /// if it is ignored.
  std::string config_of(const TransactionAnswer& answer);

 private:
  /// Nothing if the value is not accepted, which is reported.
  std::optional<OpenedValue> open(const KeyValue& key);
  Result<EtcdSnapshot> read_opened(const TransactionAnswer& answer, LeaseId own_lease);
  bool is_own_key(const std::string& key) const;
  bool is_of_this_run(const Lineage& lineage) const;
  void check_record(EtcdSnapshot& snapshot, const TransactionAnswer& answer);
  void check_outcome(EtcdSnapshot& snapshot) const;
  void report(const KeyValue& key, const std::string& problem);

  std::shared_ptr<const ValueSeal> seal_;  ///< null: the run is open
  const RunKeys keys_;
  const Log log_;
  RunNonce nonce_;    ///< as told by a coordinator or drawn for one; empty: not known
  int round_ = -1;    ///< the latest that a coordinator with that nonce has told
  int restarts_ = 0;  ///< then
  struct Ignored {
    Revision modified = -1;  ///< the value that was ignored last
    unsigned values = 0;
  };
  std::map<std::string, Ignored> ignored_;  ///< by key; a run has few
};

}  // namespace ddprun::etcd
