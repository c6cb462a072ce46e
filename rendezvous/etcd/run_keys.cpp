#include "rendezvous/etcd/run_keys.hpp"

#include "rendezvous/base/json_nesting.hpp"
#include "rendezvous/base/text.hpp"
#include "rendezvous/etcd/base64.hpp"
#include "rendezvous/etcd/record_bounds.hpp"
#include "rendezvous/membership/codec.hpp"

#include <nlohmann/json.hpp>

#include <array>
#include <charconv>
#include <cstdint>
#include <utility>
#include <variant>

namespace ddprun::etcd {

using membership::Failure;
using membership::PastNode;
using membership::RunOutcome;
using membership::RunRecord;

namespace {

using Json = nlohmann::json;

/// Version of the values' format.
constexpr int kVersion = 6;

/// Maximum count of rounds and restarts in a record.
constexpr std::size_t kListMax = 100'000;

/// A hundred years; keeps sums of times from overflowing.
constexpr std::chrono::duration<std::uint64_t, std::milli> kTimeMax =
    std::chrono::hours(24 * 365 * 100);

std::string dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

/// '/' separates the parts of a key.
std::string escaped(const std::string& text) {
  std::string result;
  for (const char c : text) {
    result += c == '/' ? std::string("%2F") : c == '%' ? std::string("%25") : std::string(1, c);
  }
  return result;
}

/// Returns a discarded value for invalid JSON and for one that is nested too deeply.
Json parse(const std::string& text) {
  if (is_nested_too_deeply(text)) return Json::value_t::discarded;
  return Json::parse(text, nullptr, false);
}

/// Reads members of an object and records whether all are valid. Does not copy the object: copying
/// recurses as deeply as the values are nested, and the writer is not trusted.
class Reader {
 public:
  explicit Reader(const Json& json) : json_(json), is_good_(json.is_object()) {}
  Reader(const Json&&) = delete;

  void check_version() {
    if (integer("version", 0, kVersion) != kVersion) is_good_ = false;
  }

  bool is_good() const { return is_good_; }

  int integer(const char* name, int least, int most) {
    const Json* value = find(name);
    if (value == nullptr || !value->is_number_integer()) return fail(least);
    const auto number = value->get<std::int64_t>();
    const bool is_unsigned_giant = value->is_number_unsigned() && number < 0;
    if (number < least || number > most || is_unsigned_giant) return fail(least);
    return static_cast<int>(number);
  }

  std::string text(const char* name) {
    const Json* value = find(name);
    return value != nullptr && value->is_string() ? value->get<std::string>() : fail(std::string());
  }

  const Json& list(const char* name) {
    static const Json none = Json::array();
    const Json* value = find(name);
    if (value != nullptr && value->is_array() && value->size() <= kListMax) return *value;
    is_good_ = false;
    return none;
  }

  /// 64 bits as hexadecimal digits, which not every JSON reader supports as numbers.
  std::uint64_t identity(const char* name) {
    const auto digits = text(name);
    std::uint64_t value = 0;
    const auto end = digits.data() + digits.size();
    const auto read = std::from_chars(digits.data(), end, value, 16);
    return read.ec == std::errc() && read.ptr == end ? value : fail(std::uint64_t{0});
  }

  const Json& member(const char* name) const {
    static const Json none;
    const Json* value = find(name);
    return value == nullptr ? none : *value;
  }

  template <typename T>
  T fail(T instead) {
    is_good_ = false;
    return instead;
  }

 private:
  const Json* find(const char* name) const {
    if (!json_.is_object()) return nullptr;
    const auto found = json_.find(name);
    return found == json_.end() ? nullptr : &*found;
  }

  const Json& json_;
  bool is_good_;
};

constexpr int kMany = membership::kRoundMax;

std::optional<Holder> read_holder(const KeyValue& key) {
  const auto json = parse(key.value);
  Reader reader(json);
  reader.check_version();
  Holder holder{.node = reader.text("node"), .created = key.created, .lease = key.lease};
  holder.endpoint.host = reader.text("host");
  holder.endpoint.port = static_cast<std::uint16_t>(reader.integer("port", 1, 65'535));
  if (!reader.is_good() || holder.endpoint.host.empty()) return std::nullopt;
  return holder;
}

PastNode read_past_node(const Json& json, Reader& of) {
  Reader reader(json);
  PastNode node{.name = reader.text("name"), .instance = reader.identity("instance")};
  return reader.is_good() ? node : of.fail(PastNode());
}

std::chrono::milliseconds read_time(const Json& json, Reader& of) {
  const bool is_time = json.is_number_unsigned() && json.get<std::uint64_t>() <= kTimeMax.count();
  return std::chrono::milliseconds(is_time ? json.get<std::int64_t>() : of.fail(0));
}

std::optional<RunRecord> read_record(const std::string& value) {
  const auto json = parse(value);
  Reader reader(json);
  reader.check_version();
  RunRecord record{.round = reader.integer("round", -1, kMany),
                   .rounds_formed = reader.integer("rounds_formed", 0, kMany),
                   .restarts = reader.integer("restarts", 0, kMany),
                   .fast_failures = reader.integer("fast_failures", 0, kMany),
                   .nodes_min = reader.integer("nodes_min", 1, kMany),
                   .nodes_max = reader.integer("nodes_max", 1, kMany),
                   .max_restarts = reader.integer("max_restarts", 0, kMany),
                   .config_hash = reader.text("config_hash")};
  record.host = read_past_node(reader.member("host"), reader);
  record.lease = read_time(reader.member("lease_ms"), reader);
  record.since_round = read_time(reader.member("since_round_ms"), reader);
  for (const auto& node : reader.list("nodes")) {
    record.nodes.push_back(read_past_node(node, reader));
  }
  for (const auto& age : reader.list("restart_ages_ms")) {
    record.restart_ages.push_back(read_time(age, reader));
  }
  if (!reader.is_good()) return std::nullopt;
  return record;
}

std::optional<RunOutcome> read_outcome(const std::string& value) {
  const auto json = parse(value);
  Reader reader(json);
  reader.check_version();
  const auto bytes = from_base64(reader.text("finish"));
  if (!reader.is_good() || !bytes) return std::nullopt;
  membership::MessageReader<membership::CoordinatorMessage> messages(kOutcomeBytesMax);
  messages.feed(*bytes);
  auto message = messages.next();
  auto* finish = message ? std::get_if<membership::Finish>(&*message) : nullptr;
  if (finish == nullptr) return std::nullopt;
  return std::move(finish->outcome);
}

Json past_node(const PastNode& node) {
  std::array<char, 17> digits{};
  std::to_chars(digits.data(), digits.data() + digits.size(), node.instance, 16);
  return {{"name", node.name}, {"instance", digits.data()}};
}

std::string whole_outcome_text(const RunOutcome& outcome) {
  std::string bytes;
  append_message(bytes, membership::CoordinatorMessage(membership::Finish{outcome}));
  return dump({{"version", kVersion}, {"finish", to_base64(bytes)}});
}

std::string why_not_understood(const std::string& value) {
  if (has_seal(value)) return " is of a run with a secret, which this node lacks (--secret_file)";
  const auto json = parse(value);
  Reader reader(json);
  const int version = reader.integer("version", 0, kMany);
  if (!reader.is_good() || version == kVersion) return " has a value that ddprun does not write";
  return " was written by another version of ddprun, which all nodes of a run must have (version " +
         std::to_string(version) + " of its values, here " + std::to_string(kVersion) + ")";
}

Problem not_understood(const KeyValue& key) {
  return {"etcd's key " + printable(key.key) + why_not_understood(key.value) +
          "; use another --rdzv_id, or delete the key if no run uses it"};
}

template <typename T>
bool keep(std::optional<T>& into, std::optional<T> read) {
  into = std::move(read);
  return into.has_value();
}

}  // namespace

RunKeys::RunKeys(const std::string& prefix, const std::string& run_id)
    : base_(prefix + "/" + escaped(run_id) + "/") {}

std::string holder_text(const std::string& node, const StoreEndpoint& endpoint) {
  return dump(
      {{"version", kVersion}, {"node", node}, {"host", endpoint.host}, {"port", endpoint.port}});
}

std::string record_text(const RunRecord& record) {
  Json ages = Json::array();
  Json nodes = Json::array();
  for (const auto& node : record.nodes) nodes.push_back(past_node(node));
  for (const auto age : record.restart_ages) ages.push_back(std::max<std::int64_t>(age.count(), 0));
  return dump({{"version", kVersion},
               {"round", record.round},
               {"rounds_formed", record.rounds_formed},
               {"nodes", nodes},
               {"host", past_node(record.host)},
               {"restarts", record.restarts},
               {"fast_failures", record.fast_failures},
               {"lease_ms", record.lease.count()},
               {"since_round_ms", record.since_round.count()},
               {"restart_ages_ms", ages},
               {"nodes_min", record.nodes_min},
               {"nodes_max", record.nodes_max},
               {"max_restarts", record.max_restarts},
               {"config_hash", record.config_hash}});
}

std::string outcome_text(const RunOutcome& outcome) {
  auto shortened = outcome;
  auto text = whole_outcome_text(shortened);
  if (text.size() > kOutcomeBytesMax) {
    shortened.flights.clear();
    text = whole_outcome_text(shortened);
  }
  // The first failure is the root cause; drop the last ones.
  for (auto failure = shortened.failures.rbegin();
       failure != shortened.failures.rend() && text.size() > kOutcomeBytesMax; ++failure) {
    if (!std::exchange(failure->exit, {})) continue;
    text = whole_outcome_text(shortened);
  }
  while (!shortened.failures.empty() && text.size() > kOutcomeBytesMax) {
    shortened.failures.pop_back();
    text = whole_outcome_text(shortened);
  }
  return text;
}

Result<EtcdSnapshot> read_snapshot(const TransactionAnswer& answer, const RunKeys& keys,
                                   LeaseId own_lease) {
  EtcdSnapshot snapshot{.revision = answer.revision};
  const KeyValue* damaged_record = nullptr;
  for (const auto& key : answer.keys) {
    bool is_good = true;
    if (key.key == keys.coordinator()) is_good = keep(snapshot.holder, read_holder(key));
    if (key.key == keys.outcome()) is_good = keep(snapshot.outcome, read_outcome(key.value));
    if (!is_good) return not_understood(key);
    if (key.key == keys.record() && !keep(snapshot.record, read_record(key.value)))
      damaged_record = &key;
  }
  const bool is_known_elsewhere =
      snapshot.outcome || (snapshot.holder && snapshot.holder->lease != own_lease);
  if (damaged_record != nullptr && !is_known_elsewhere) return not_understood(*damaged_record);
  return snapshot;
}

}  // namespace ddprun::etcd
