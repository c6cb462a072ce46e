// Values in etcd that are sealed with the secret of a run, and their acceptance by an agent.
#include "rendezvous/etcd/record_bounds.hpp"
#include "rendezvous/etcd/run_trust.hpp"
#include "rendezvous/etcd/value_seal.hpp"
#include "rendezvous/membership/outsider.hpp"
#include "tests/support/dialogues.hpp"

#include <doctest/doctest.h>

#include <string>
#include <string_view>
#include <vector>

namespace etcd_trust_test {

using namespace ddprun;
using namespace ddprun::etcd;
using ddprun::etcd::Problem;
using ddprun::test::secret_of;
using membership::RoundFormed;
using membership::RunOutcome;
using membership::RunRecord;
using membership::Welcome;

namespace {

const RunKeys kKeys("/ddprun", "run");
const RunNonce kOwn(kRunNonceDigits, '0');
const RunNonce kOther(kRunNonceDigits, 'f');

/// The result of an operation on values as text, for comparisons.
constexpr const char* kValue = R"({"a":1})";

KeyValue at(const std::string& key, const std::string& value) {
  return {.key = key, .value = value, .created = 5, .modified = 6, .lease = 7};
}

TransactionAnswer answer(std::vector<KeyValue> keys) {
  return {.has_succeeded = true, .revision = 9, .keys = std::move(keys)};
}

std::string outcome_of(membership::RunResult result) {
  return outcome_text({.result = result, .rounds = 1, .reason = "why"});
}

/// Values read by an agent with the secret 's', and its reports.
struct Agent {
  std::string reports;
  RunTrust trust{&secret(), kKeys,
                 [this](LogLevel, std::string_view line) { reports += std::string(line) + "\n"; }};

  static const security::Secret& secret() {
    static const auto secret = secret_of('s');
    return secret;
  }

  /// Has joined a coordinator that has sent this.
  void join(const RunNonce& nonce, int round = 0, int restarts = 0) {
    trust.observe(Welcome{.run_nonce = nonce});
    trust.observe(RoundFormed{.round = round, .restarts_used = restarts});
  }

  EtcdSnapshot sees(std::vector<KeyValue> keys) {
    return std::get<EtcdSnapshot>(trust.read(answer(std::move(keys))));
  }
};

std::string sealed(const std::string& key, const std::string& value, const Lineage& lineage,
                   char secret = 's') {
  return ValueSeal(secret_of(secret)).seal(key, value, lineage);
}

KeyValue coordinator(const Lineage& lineage = {kOwn}, char secret = 's') {
  return at(kKeys.coordinator(),
            sealed(kKeys.coordinator(), holder_text("b", {"10.0.0.2", 1}), lineage, secret));
}

KeyValue record(int round, int restarts, const Lineage& lineage = {kOwn}) {
  const RunRecord record{.round = round, .rounds_formed = round + 1, .restarts = restarts};
  return at(kKeys.record(), sealed(kKeys.record(), record_text(record), lineage));
}

KeyValue outcome(membership::RunResult result, const Lineage& lineage = {kOwn}) {
  return at(kKeys.outcome(), sealed(kKeys.outcome(), outcome_of(result), lineage));
}

constexpr auto kSucceeded = membership::RunResult::succeeded;
constexpr auto kFailed = membership::RunResult::failed;

}  // namespace

TEST_SUITE("seal of a value in etcd") {
  TEST_CASE("etcd seal: the bytes match docs/agents_protocol.md") {
    CHECK(sealed(kKeys.record(), kValue, {kOwn, kOther}) ==
          std::string(kValue) + "\nseal " + kOwn + "," + kOther +
              " 5728a4cc9c8482f0c3f15782347d74bf415fdee654199266df835724287ddcba");
  }

  TEST_CASE("etcd seal: a seal is valid only for its key and secret and unchanged bytes") {
    const ValueSeal seal(secret_of('s'));
    const std::string value = std::string("\nseal x\n") + '\0' + kValue;
    const auto text = seal.seal(kKeys.record(), value, {kOwn});
    const auto opened = seal.open(kKeys.record(), text);
    REQUIRE(opened);
    CHECK(opened->value == value);
    CHECK(opened->lineage == Lineage{kOwn});
    CHECK_FALSE(seal.open(kKeys.outcome(), text));
    CHECK_FALSE(ValueSeal(secret_of('x')).open(kKeys.record(), text));
    for (std::size_t i = 0; i < text.size(); ++i) {
      auto changed = text;
      changed[i] = static_cast<char>(changed[i] ^ 1);
      CHECK_FALSE(seal.open(kKeys.record(), changed));
      CHECK_FALSE(seal.open(kKeys.record(), text.substr(0, i)));
    }
    CHECK_FALSE(seal.open(kKeys.record(), text + "0"));
  }

  TEST_CASE("etcd seal: a value has 1 to 16 nonces") {
    Lineage lineage;
    const auto opens = [&] {
      const ValueSeal seal(secret_of('s'));
      return seal.open("k", seal.seal("k", "v", lineage)).has_value();
    };
    CHECK_FALSE(opens());
    lineage.assign(kLineageMax, kOwn);
    CHECK(opens());
    CHECK(ValueSeal(secret_of('s')).seal("k", "v", lineage).size() <= 1 + kSealBytesMax);
    lineage.push_back(kOwn);
    CHECK_FALSE(opens());
    lineage = {"short"};
    CHECK_FALSE(opens());
  }

  TEST_CASE("etcd seal: a coordinator that continues a run keeps up to 16 nonces") {
    const RunSeal own{.lineage = {kOwn}};
    CHECK(own.continuing({}).lineage == Lineage{kOwn});
    CHECK(own.continuing({kOther, kOwn}).lineage == Lineage{kOwn, kOther});
    CHECK(own.continuing(Lineage(kLineageMax, kOther)).lineage == Lineage{kOwn, kOther});
    Lineage many;
    for (std::size_t i = 0; i < kLineageMax; ++i) many.push_back(draw_run_nonce());
    CHECK(own.continuing(many).lineage.size() == kLineageMax);
    CHECK(many.front() != many.back());
    CHECK(is_run_nonce(many.front()));
  }
}

TEST_SUITE("trust in values from etcd") {
  TEST_CASE("etcd trust: a run without a secret accepts unsealed values") {
    RunTrust trust(nullptr, kKeys, {});
    CHECK_FALSE(trust.seal_of_candidate().seal);
    CHECK(trust.seal_of_candidate()("k", "v") == "v");
    const auto snapshot =
        std::get<EtcdSnapshot>(trust.read(answer({at(kKeys.outcome(), outcome_of(kSucceeded))})));
    REQUIRE(snapshot.outcome);
    CHECK(snapshot.outcome->result == kSucceeded);
    CHECK(trust.config_of(answer({at(kKeys.config(), "text")})) == "text");
    CHECK(trust.config_of(answer({})).empty());
    const auto refused = std::get<Problem>(trust.read(answer({record(0, 0)})));
    CHECK(refused.text ==
          "etcd's key /ddprun/run/record is of a run with a secret, which this node lacks "
          "(--secret_file); use another --rdzv_id, or delete the key if no run uses it");
  }

  TEST_CASE("etcd trust: forged values are ignored and reported with growing intervals") {
    Agent agent;
    agent.join(kOwn);
    const auto forged = [&](Revision modified) {
      std::vector<KeyValue> keys{at(kKeys.outcome(), outcome_of(kSucceeded)),
                                 at(kKeys.record(), record_text({.round = 4})),
                                 coordinator({kOwn}, 'x'), at("/ddprun/run/unknown", "text")};
      for (auto& key : keys) key.modified = modified;
      return agent.sees(std::move(keys));
    };
    const auto snapshot = forged(6);
    CHECK_FALSE(snapshot.outcome);
    CHECK_FALSE(snapshot.record);
    CHECK_FALSE(snapshot.holder);
    CHECK(snapshot.ignored_outcome == 6);
    CHECK(snapshot.is_holder_ignored);
    for (const auto& key : {kKeys.outcome(), kKeys.record(), kKeys.coordinator()}) {
      CHECK(agent.reports.find(
                "etcd's key " + key +
                ": value ignored, as it is not sealed with this run's secret; compare "
                "--secret_file on all nodes, or use another --rdzv_id\n") != std::string::npos);
    }
    const auto lines = [&] { return std::count(agent.reports.begin(), agent.reports.end(), '\n'); };
    for (int i = 0; i < 7; ++i) forged(6);
    CHECK(lines() == 3);
    for (Revision modified = 7; modified < 13; ++modified) forged(modified);
    CHECK(lines() == 3 * 3);
    CHECK(agent.trust.config_of(answer({at(kKeys.config(), "text")})).empty());
  }

  TEST_CASE("etcd trust: a value sealed for another key is ignored") {
    Agent agent;
    auto swapped = outcome(kFailed);
    swapped.key = kKeys.record();
    CHECK_FALSE(agent.sees({swapped}).record);
    CHECK_FALSE(agent.reports.empty());
  }

  TEST_CASE("etcd trust: values of an earlier run are ignored once the run's nonce is known") {
    Agent agent;
    agent.join(kOwn);
    for (const auto result : {kSucceeded, kFailed}) {
      CHECK_FALSE(agent.sees({outcome(result, {kOther})}).outcome);
      CHECK(agent.sees({outcome(result)}).outcome->result == result);
      CHECK(agent.sees({outcome(result, {kOther, kOwn})}).outcome->result == result);
    }
    CHECK_FALSE(agent.sees({record(3, 0, {kOther})}).record);
    CHECK(agent.reports.find(
              "etcd's key /ddprun/run/record: value ignored, as it is of another "
              "run of this name; use another --rdzv_id, or delete the key if that run has "
              "ended") != std::string::npos);
    const auto config_of = [&](const std::string& key, const Lineage& lineage) {
      return agent.trust.config_of(answer({at(key, sealed(key, "text", lineage))}));
    };
    CHECK(config_of(kKeys.config(), {kOther}).empty());
    CHECK(config_of(kKeys.record(), {kOwn}).empty());
    CHECK(config_of(kKeys.config(), {kOwn}) == "text");
    // The coordinator itself must authenticate.
    CHECK(agent.sees({coordinator({kOther})}).holder);
  }

  TEST_CASE("etcd trust: a record older than the coordinator's messages is ignored") {
    struct Row {
      int round;
      int restarts;
      bool is_accepted;
    };
    for (const auto& row :
         {Row{3, 2, true}, Row{4, 3, true}, Row{2, 2, false}, Row{3, 1, false}, Row{4, 1, false}}) {
      Agent agent;
      agent.join(kOwn, 3, 2);
      const auto snapshot = agent.sees({record(row.round, row.restarts)});
      CHECK(snapshot.record.has_value() == row.is_accepted);
      CHECK(snapshot.lineage.empty() != row.is_accepted);
      CHECK(agent.reports.empty() == row.is_accepted);
      // The nonce of another run is unknown.
      agent.join(kOther);
      CHECK(agent.sees({record(0, 0, {kOther})}).record);
    }
  }

  TEST_CASE("etcd trust: an agent that knows no nonce accepts failures but no success") {
    Agent agent;
    CHECK(agent.sees({outcome(kFailed)}).outcome->result == kFailed);
    const auto unverified = agent.sees({outcome(kSucceeded)}).outcome;
    REQUIRE(unverified);
    CHECK(unverified->scope == membership::OutcomeScope::node);
    CHECK(unverified->reason.find("has succeeded, which a node that has not taken part in it") !=
          std::string::npos);
    const auto asks = agent.sees({coordinator(), outcome(kSucceeded)});
    CHECK_FALSE(asks.outcome);
    CHECK(asks.holder);
    CHECK(asks.ignored_outcome == 0);
    agent.join(kOwn);
    CHECK(agent.sees({coordinator(), outcome(kSucceeded)}).outcome->result == kSucceeded);
    CHECK(agent.reports.empty());
  }

  TEST_CASE("etcd trust: a candidate creates a nonce unless the coordinator sent one") {
    Agent agent;
    agent.sees({record(3, 0, {kOther})});
    const auto first = agent.trust.seal_of_candidate().lineage;
    REQUIRE(first.size() == 1);
    CHECK(first.front() != kOther);
    CHECK(first != agent.trust.seal_of_candidate().lineage);
    agent.trust.observe(Welcome{.run_nonce = "no nonce"});
    CHECK(agent.trust.seal_of_candidate().lineage != Lineage{"no nonce"});
    agent.join(kOwn);
    CHECK(agent.trust.seal_of_candidate().lineage == Lineage{kOwn});
  }

  TEST_CASE("etcd trust: sealed values do not exceed etcd's request limit") {
    CHECK(3 * kSealBytesMax <= kFrameBytesMax / 2);
  }
}

}  // namespace etcd_trust_test
