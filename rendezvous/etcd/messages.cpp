#include "rendezvous/etcd/messages.hpp"

#include "rendezvous/base/json_nesting.hpp"
#include "rendezvous/base/text.hpp"
#include "rendezvous/etcd/base64.hpp"

#include <nlohmann/json.hpp>

#include <charconv>
#include <utility>

namespace ddprun::etcd {

namespace {

using Json = nlohmann::json;

/// Maximum bytes of a text quoted in a problem.
constexpr std::size_t kQuotedBytesMax = 200;

/// One year, as for all options in seconds.
constexpr std::int64_t kSecondsMax = 366 * 86'400;

Problem malformed(std::string_view text) {
  return {"etcd sent a response that ddprun cannot parse: " +
          printable(text.substr(0, kQuotedBytesMax))};
}

/// Returns a discarded value for invalid JSON and for one that is nested too deeply.
Json parse(std::string_view text) {
  if (is_nested_too_deeply(text)) return Json::value_t::discarded;
  return Json::parse(text, nullptr, false);
}

/// Returns null if the value is not an object or lacks the member.
const Json& member(const Json& object, const char* name) {
  static const Json absent;
  if (!object.is_object()) return absent;
  const auto found = object.find(name);
  return found == object.end() ? absent : *found;
}

/// Accepts text or a number; absent means zero.
std::optional<std::int64_t> integer(const Json& value) {
  if (value.is_null()) return 0;
  if (value.is_number_integer()) return value.get<std::int64_t>();
  if (!value.is_string()) return std::nullopt;
  const auto& text = value.get_ref<const std::string&>();
  std::int64_t number = 0;
  const auto end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, number);
  if (read.ec != std::errc() || read.ptr != end) return std::nullopt;
  return number;
}

std::optional<std::string> bytes(const Json& value) {
  if (value.is_null()) return std::string();
  if (!value.is_string()) return std::nullopt;
  return from_base64(value.get_ref<const std::string&>());
}

Json range_json(const Range& range) {
  Json json = {{"key", to_base64(range.key)}};
  if (!range.end.empty()) json["range_end"] = to_base64(range.end);
  return json;
}

std::optional<KeyValue> read_key(const Json& json) {
  const auto key = bytes(member(json, "key"));
  const auto value = bytes(member(json, "value"));
  const auto created = integer(member(json, "create_revision"));
  const auto modified = integer(member(json, "mod_revision"));
  const auto lease = integer(member(json, "lease"));
  if (!json.is_object() || !key || !value || !created || !modified || !lease) return std::nullopt;
  return KeyValue{
      .key = *key, .value = *value, .created = *created, .modified = *modified, .lease = *lease};
}

std::optional<std::vector<KeyValue>> read_keys(const Json& responses) {
  std::vector<KeyValue> keys;
  if (responses.is_null()) return keys;
  if (!responses.is_array()) return std::nullopt;
  for (const auto& response : responses) {
    const auto& found = member(member(response, "response_range"), "kvs");
    if (found.is_null()) continue;
    if (!found.is_array()) return std::nullopt;
    for (const auto& entry : found) {
      auto key = read_key(entry);
      if (!key) return std::nullopt;
      keys.push_back(std::move(*key));
    }
  }
  return keys;
}

std::optional<std::chrono::seconds> lease_time(const Json& value) {
  const auto seconds = integer(value);
  if (!seconds || *seconds < 0 || *seconds > kSecondsMax) return std::nullopt;
  return std::chrono::seconds(*seconds);
}

}  // namespace

Range prefix_range(const std::string& prefix) {
  auto end = prefix;
  ++end.back();
  return {.key = prefix, .end = end};
}

std::string lease_request(std::chrono::seconds time) {
  return Json{{"TTL", std::to_string(time.count())}}.dump();
}

std::string renewal_request(LeaseId lease) {
  return Json{{"ID", std::to_string(lease)}}.dump();
}

std::string revocation_request(LeaseId lease) {
  return renewal_request(lease);
}

std::string transaction_request(const Transaction& transaction) {
  Json request = {{"compare", Json::array()}, {"success", Json::array()}};
  for (const auto& condition : transaction.conditions) {
    const bool is_modified = condition.modified.has_value();
    request["compare"].push_back(
        {{"key", to_base64(condition.key)},
         {"target", is_modified ? "MOD" : "CREATE"},
         {"result", "EQUAL"},
         {is_modified ? "mod_revision" : "create_revision",
          std::to_string(condition.modified.value_or(condition.created))}});
  }
  for (const auto& put : transaction.puts) {
    request["success"].push_back({{"request_put",
                                   {{"key", to_base64(put.key)},
                                    {"value", to_base64(put.value)},
                                    {"lease", std::to_string(put.lease)}}}});
  }
  if (transaction.read) {
    const Json read = {{"request_range", range_json(*transaction.read)}};
    request["success"].push_back(read);
    request["failure"] = Json::array({read});
  }
  return request.dump();
}

std::string watch_request(const Range& range, Revision first) {
  auto request = range_json(range);
  request["start_revision"] = std::to_string(first);
  return Json{{"create_request", request}}.dump();
}

Result<Lease> parse_lease(std::string_view text) {
  const auto json = parse(text);
  const auto id = integer(member(json, "ID"));
  const auto time = lease_time(member(json, "TTL"));
  if (!id || *id == 0 || !time || time->count() == 0) return malformed(text);
  return Lease{.id = *id, .time = *time};
}

Result<std::chrono::seconds> parse_renewal(std::string_view text) {
  const auto json = parse(text);
  const auto& result = member(json, "result");
  if (!result.is_object()) return malformed(text);
  const auto time = lease_time(member(result, "TTL"));
  if (!time) return malformed(text);
  return *time;
}

Result<TransactionAnswer> parse_transaction(std::string_view text) {
  const auto json = parse(text);
  const auto revision = integer(member(member(json, "header"), "revision"));
  auto keys = read_keys(member(json, "responses"));
  const auto& succeeded = member(json, "succeeded");
  const bool is_flag = succeeded.is_null() || succeeded.is_boolean();
  if (!revision || *revision <= 0 || !keys || !is_flag) return malformed(text);
  return TransactionAnswer{.has_succeeded = succeeded.is_boolean() && succeeded.get<bool>(),
                           .revision = *revision,
                           .keys = std::move(*keys)};
}

Result<bool> parse_watch(std::string_view line) {
  const auto json = parse(line);
  const auto& result = member(json, "result");
  if (!result.is_object()) return malformed(line);
  const auto& canceled = member(result, "canceled");
  const bool has_ended = canceled.is_boolean() && canceled.get<bool>();
  const auto& events = member(result, "events");
  return has_ended || (events.is_array() && !events.empty());
}

std::optional<bool> read_watch(std::string_view body, std::size_t& taken) {
  for (auto end = body.find('\n', taken); end != body.npos; end = body.find('\n', taken)) {
    const auto parsed = parse_watch(body.substr(taken, end - taken));
    taken = end + 1;
    if (std::holds_alternative<Problem>(parsed)) return false;
    if (std::get<bool>(parsed)) return true;
  }
  return std::nullopt;
}

std::string error_in(unsigned status, std::string_view text) {
  const auto json = parse(text);
  for (const char* name : {"message", "error"}) {
    const auto& field = member(json, name);
    if (field.is_string()) {
      return printable(field.get_ref<const std::string&>().substr(0, kQuotedBytesMax));
    }
  }
  if (status == 404) {
    return "the v3 API is missing (404); use etcd 3.4 or newer with its HTTP gateway";
  }
  return "HTTP status " + std::to_string(status);
}

}  // namespace ddprun::etcd
