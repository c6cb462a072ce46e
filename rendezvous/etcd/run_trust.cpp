#include "rendezvous/etcd/run_trust.hpp"

#include "rendezvous/base/text.hpp"
#include "rendezvous/membership/outsider.hpp"

#include <algorithm>
#include <bit>
#include <utility>

namespace ddprun::etcd {

using membership::RoundFormed;
using membership::RunOutcome;
using membership::Welcome;

namespace {

constexpr const char* kUnverifiedSuccess =
    "according to etcd a run of this name has succeeded, which a node that has not taken part in "
    "it cannot verify; a new run needs another --rdzv_id";

}  // namespace

RunTrust::RunTrust(const security::Secret* secret, RunKeys keys, Log log)
    : seal_(secret == nullptr ? nullptr : std::make_shared<const ValueSeal>(*secret)),
      keys_(std::move(keys)),
      log_(std::move(log)) {}

void RunTrust::observe(const membership::CoordinatorMessage& message) {
  if (const auto* welcome = std::get_if<Welcome>(&message)) {
    if (welcome->run_nonce == nonce_ || !is_run_nonce(welcome->run_nonce)) return;
    nonce_ = welcome->run_nonce;
    round_ = -1;
    restarts_ = 0;
  } else if (const auto* formed = std::get_if<RoundFormed>(&message)) {
    round_ = std::max(round_, formed->round);
    restarts_ = std::max(restarts_, formed->restarts_used);
  }
}

RunSeal RunTrust::seal_of_candidate() const {
  if (!seal_) return {};
  return {.seal = seal_, .lineage = {nonce_.empty() ? draw_run_nonce() : nonce_}};
}

Result<EtcdSnapshot> RunTrust::read(const TransactionAnswer& answer, LeaseId own_lease) {
  if (!seal_) return read_snapshot(answer, keys_, own_lease);
  auto result = read_opened(answer, own_lease);
  if (auto* snapshot = std::get_if<EtcdSnapshot>(&result)) {
    check_record(*snapshot, answer);
    check_outcome(*snapshot);
  }
  return result;
}

Result<EtcdSnapshot> RunTrust::read_opened(const TransactionAnswer& answer, LeaseId own_lease) {
  TransactionAnswer accepted{.has_succeeded = answer.has_succeeded, .revision = answer.revision};
  EtcdSnapshot facts;
  for (const auto& key : answer.keys) {
    if (!is_own_key(key.key)) continue;
    auto opened = open(key);
    if (opened) {
      accepted.keys.push_back(key);
      accepted.keys.back().value = std::move(opened->value);
      if (key.key == keys_.record()) facts.lineage = std::move(opened->lineage);
    } else if (key.key == keys_.outcome()) {
      facts.ignored_outcome = key.modified;
    } else if (key.key == keys_.coordinator()) {
      facts.is_holder_ignored = true;
    }
  }
  auto result = read_snapshot(accepted, keys_, own_lease);
  if (auto* snapshot = std::get_if<EtcdSnapshot>(&result)) {
    snapshot->lineage = std::move(facts.lineage);
    snapshot->ignored_outcome = facts.ignored_outcome;
    snapshot->is_holder_ignored = facts.is_holder_ignored;
  }
  return result;
}

std::string RunTrust::config_of(const TransactionAnswer& answer) {
  for (const auto& key : answer.keys) {
    if (key.key != keys_.config()) continue;
    if (!seal_) return key.value;
    auto opened = open(key);
    return opened ? std::move(opened->value) : std::string();
  }
  return {};
}

std::optional<OpenedValue> RunTrust::open(const KeyValue& key) {
  auto opened = seal_->open(key.key, key.value);
  if (!opened) {
    report(key,
           "is not sealed with this run's secret; compare --secret_file on all nodes, or use "
           "another --rdzv_id");
    return std::nullopt;
  }
  // A coordinator authenticates itself, so its key may have any nonce.
  if (key.key == keys_.coordinator() || is_of_this_run(opened->lineage)) return opened;
  report(key,
         "is of another run of this name; use another --rdzv_id, or delete the key if that run has "
         "ended");
  return std::nullopt;
}

bool RunTrust::is_own_key(const std::string& key) const {
  return key == keys_.coordinator() || key == keys_.record() || key == keys_.outcome();
}

bool RunTrust::is_of_this_run(const Lineage& lineage) const {
  return nonce_.empty() || std::find(lineage.begin(), lineage.end(), nonce_) != lineage.end();
}

void RunTrust::check_record(EtcdSnapshot& snapshot, const TransactionAnswer& answer) {
  if (!snapshot.record) return;
  if (snapshot.record->round >= round_ && snapshot.record->restarts >= restarts_) return;
  const auto key = std::find_if(answer.keys.begin(), answer.keys.end(),
                                [&](const KeyValue& k) { return k.key == keys_.record(); });
  report(*key, "is older than what the coordinator has sent (round " +
                   std::to_string(snapshot.record->round) + ", not " + std::to_string(round_) +
                   "); restrict write access to etcd");
  snapshot.record.reset();
  snapshot.lineage.clear();
}

void RunTrust::check_outcome(EtcdSnapshot& snapshot) const {
  const bool is_success =
      snapshot.outcome && snapshot.outcome->result == membership::RunResult::succeeded;
  if (!is_success || !nonce_.empty()) return;
  if (snapshot.holder) {
    snapshot.outcome.reset();
  } else {
    snapshot.outcome = membership::refusal_of(kUnverifiedSuccess);
  }
}

/// Reports each value once, and the 1st, 2nd, 4th and so on of a key's values, which bounds the
/// size of the log.
void RunTrust::report(const KeyValue& key, const std::string& problem) {
  auto& ignored = ignored_[key.key];
  if (key.modified == ignored.modified) return;
  ignored.modified = key.modified;
  if (!std::has_single_bit(++ignored.values)) return;
  write_log(log_, LogLevel::warn,
            "etcd's key " + printable(key.key) + ": value ignored, as it " + problem);
}

}  // namespace ddprun::etcd
