#include "rendezvous/etcd/value_seal.hpp"

#include "rendezvous/base/random_bytes.hpp"
#include "rendezvous/wire/bytes.hpp"

#include <algorithm>
#include <utility>

namespace ddprun::etcd {

namespace {

// Part of the protocol.
constexpr std::string_view kSalt = "etcd";
constexpr std::string_view kPurpose = "ddprun seal of a value";
constexpr std::string_view kMark = "\nseal ";

std::string joined(const Lineage& lineage) {
  std::string text;
  for (const auto& nonce : lineage) text += (text.empty() ? "" : ",") + nonce;
  return text;
}

/// Returns empty if it is invalid.
Lineage parse_lineage(std::string_view text) {
  Lineage lineage;
  while (lineage.size() < kLineageMax) {
    const auto nonce = text.substr(0, kRunNonceDigits);
    if (!is_run_nonce(nonce)) return {};
    lineage.emplace_back(nonce);
    text.remove_prefix(kRunNonceDigits);
    if (text.empty()) return lineage;
    if (!text.starts_with(',')) return {};
    text.remove_prefix(1);
  }
  return {};
}

struct Parts {
  std::string_view value;
  std::string_view lineage;
  std::string_view tag;
};

/// The text after the mark cannot contain it, so use the last one.
std::optional<Parts> split(std::string_view sealed) {
  const auto mark = sealed.rfind(kMark);
  if (mark == std::string_view::npos) return std::nullopt;
  const auto seal = sealed.substr(mark + kMark.size());
  const auto space = seal.find(' ');
  if (space == std::string_view::npos) return std::nullopt;
  const Parts parts{sealed.substr(0, mark), seal.substr(0, space), seal.substr(space + 1)};
  if (!is_hexadecimal(parts.tag, 2 * security::kDigestBytes)) return std::nullopt;
  return parts;
}

/// Each part is preceded by its length, which makes the encoding unique.
std::string tag_of(const security::Key& key, std::string_view name, std::string_view lineage,
                   std::string_view value) {
  std::string message;
  for (const auto part : {name, lineage, value}) wire::append_string(message, part);
  return hexadecimal(security::authenticate(key, message));
}

}  // namespace

RunNonce draw_run_nonce() {
  return hexadecimal(random_bytes(kRunNonceDigits / 2));
}

bool is_run_nonce(std::string_view text) {
  return is_hexadecimal(text, kRunNonceDigits);
}

ValueSeal::ValueSeal(const security::Secret& secret)
    : key_(security::derive_key(secret.bytes(), kSalt, kPurpose)) {}

std::string ValueSeal::seal(std::string_view key, std::string_view value,
                            const Lineage& lineage) const {
  const auto nonces = joined(lineage);
  return std::string(value) + std::string(kMark) + nonces + " " + tag_of(key_, key, nonces, value);
}

std::optional<OpenedValue> ValueSeal::open(std::string_view key, std::string_view sealed) const {
  const auto parts = split(sealed);
  if (!parts) return std::nullopt;
  const auto expected = tag_of(key_, key, parts->lineage, parts->value);
  if (!security::are_equal(expected, parts->tag)) return std::nullopt;
  auto lineage = parse_lineage(parts->lineage);
  if (lineage.empty()) return std::nullopt;
  return OpenedValue{std::string(parts->value), std::move(lineage)};
}

RunSeal RunSeal::continuing(const Lineage& record) const {
  auto result = *this;
  auto& all = result.lineage;
  for (const auto& nonce : record) {
    const bool is_known = std::find(all.begin(), all.end(), nonce) != all.end();
    if (!is_known && all.size() < kLineageMax) all.push_back(nonce);
  }
  return result;
}

bool has_seal(std::string_view text) {
  return split(text).has_value();
}

}  // namespace ddprun::etcd
