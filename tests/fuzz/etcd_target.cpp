#include "tests/fuzz/etcd_target.hpp"

#include "rendezvous/etcd/base64.hpp"
#include "rendezvous/etcd/messages.hpp"
#include "rendezvous/etcd/run_keys.hpp"
#include "rendezvous/etcd/value_seal.hpp"
#include "rendezvous/security/secret.hpp"
#include "tests/fuzz/promise.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>

namespace ddprun::fuzz {

namespace {

using namespace etcd;
using etcd::Problem;
using namespace std::chrono_literals;

constexpr auto kTimeMax = 366 * 24h;

/// Text of a problem with a quotation, each byte of which may be escaped.
constexpr std::size_t kProblemBytesMax = 1024;

const RunKeys& keys() {
  static const RunKeys keys("/ddprun", "r");
  return keys;
}

/// The parsed value; nothing if there is a problem.
template <typename T>
std::optional<T> value_of(const Result<T>& result) {
  if (const auto* problem = std::get_if<Problem>(&result)) {
    const auto size = problem->text.size();
    require(size > 0 && size <= kProblemBytesMax, "a problem has a text, and not a long one");
    return std::nullopt;
  }
  return std::get<T>(result);
}

void read_lease(std::string_view text) {
  const auto lease = value_of(parse_lease(text));
  if (!lease) return;
  require(lease->id != 0 && lease->time > 0s && lease->time <= kTimeMax, "a lease is one");
}

void read_renewal(std::string_view text) {
  const auto time = value_of(parse_renewal(text));
  if (time) require(*time >= 0s && *time <= kTimeMax, "a lease has a time");
}

TransactionAnswer answer_of(const std::string& key, const std::string& value) {
  return {.revision = 1, .keys = {{.key = key, .value = value, .created = 1, .lease = 1}}};
}

/// Must round-trip.
void write_again(const EtcdSnapshot& snapshot) {
  if (snapshot.holder) {
    const auto text = holder_text(snapshot.holder->node, snapshot.holder->endpoint);
    auto again = value_of(read_snapshot(answer_of(keys().coordinator(), text), keys()));
    require(again && again->holder, "a holder that is written can be read");
    again->holder->created = snapshot.holder->created;
    again->holder->lease = snapshot.holder->lease;
    require(again->holder == snapshot.holder, "a holder has one meaning");
  }
  if (snapshot.record) {
    const auto answer = answer_of(keys().record(), record_text(*snapshot.record));
    const auto again = value_of(read_snapshot(answer, keys()));
    require(again && again->record == snapshot.record, "a record has one meaning");
  }
  if (snapshot.outcome) {
    const auto answer = answer_of(keys().outcome(), outcome_text(*snapshot.outcome));
    const auto again = value_of(read_snapshot(answer, keys()));
    require(again && again->outcome == snapshot.outcome, "an outcome has one meaning");
  }
}

void read_transaction(std::string_view text) {
  const auto answer = value_of(parse_transaction(text));
  if (!answer) return;
  require(answer->revision > 0, "data have a revision");
  for (const auto& key : answer->keys) {
    require(from_base64(to_base64(key.value)) == key.value, "base64 gives back what it is given");
  }
  if (const auto snapshot = value_of(read_snapshot(*answer, keys()))) write_again(*snapshot);
}

/// Any value can be sealed and opened, and no value opens without a seal.
void seal(std::string_view text) {
  static const auto secret = security::Secret::from_bytes(std::string(40, 's'), "a test");
  static const ValueSeal seal(secret);
  const Lineage lineage{RunNonce(kRunNonceDigits, '0')};
  require(!seal.open("k", text), "nothing is sealed without the secret");
  const auto opened = seal.open("k", seal.seal("k", text, lineage));
  require(opened && opened->value == text && opened->lineage == lineage,
          "a sealed value is what it was");
  require(has_seal(seal.seal("k", text, lineage)), "a seal is recognised");
}

void read_value(std::string_view text) {
  if (text.empty()) return;
  const std::string names[] = {keys().coordinator(), keys().record(), keys().outcome()};
  seal(text);
  const auto& name = names[static_cast<unsigned char>(text[0]) % 3];
  const auto snapshot =
      value_of(read_snapshot(answer_of(name, std::string(text.substr(1))), keys()));
  if (snapshot) write_again(*snapshot);
}

std::optional<bool> watch(std::string_view text, std::size_t piece) {
  std::size_t taken = 0;
  for (std::size_t size = 0; size < text.size();) {
    size = std::min(size + piece, text.size());
    if (const auto change = read_watch(text.substr(0, size), taken)) return change;
    require(taken <= size, "no more is taken than has come");
  }
  return std::nullopt;
}

void read_error(std::string_view text) {
  for (const unsigned status : {404U, 503U}) {
    const auto error = error_in(status, text);
    require(error.size() <= kProblemBytesMax, "the text of an error is bounded");
  }
}

}  // namespace

void run_etcd(std::span<const std::uint8_t> input) {
  if (input.empty()) return;
  const std::string text(input.begin() + 1, input.end());
  switch (input.front() % 6) {
    case 0:
      return read_lease(text);
    case 1:
      return read_renewal(text);
    case 2:
      return read_transaction(text);
    case 3:
      return require(watch(text, text.size() + 1) == watch(text, 3),
                     "pieces of a watch mean what the whole means");
    case 4:
      return read_error(text);
    default:
      return read_value(text);
  }
}

}  // namespace ddprun::fuzz
