#include "rendezvous/membership/foreign_peer.hpp"

#include <algorithm>
#include <variant>

namespace ddprun::membership {

namespace {

struct Signature {
  std::string_view begin;
  const char* name;
};

/// Shorter prefixes are not compared: they may be the length of a message.
constexpr std::size_t kSignatureBytesMin = 4;

constexpr const char* kHttpServer = "is an HTTP server";

constexpr Signature kSignatures[] = {
    {"HTTP/", kHttpServer},
    // Some servers treat the request as HTTP/0.9, whose replies have no header.
    {"<!DOCTYPE", kHttpServer},
    {"<html", kHttpServer},
    {"SSH-", "is an ssh server"},
    {"220 ", "is a mail or FTP server"},
    {"-ERR ", "is a Redis server"},
};

constexpr std::string_view kTls = "\x15\x03";

/// Followed by the run's id.
constexpr std::string_view kRendezvousKey = "/torch.rendezvous.";
/// Preceded by the run's id, followed by the node's rank; in newer versions with a slash between.
constexpr std::string_view kRolesKey = "/torchelastic/role_info";

/// The largest code of an operation in the legacy dialect, where it is a connection's first byte.
constexpr unsigned char kLegacyCodeMax = 8;

}  // namespace

bool is_of_torchrun(const wire::Request& request) {
  if (const auto* exchange = std::get_if<wire::CompareSet>(&request))
    return exchange->key.starts_with(kRendezvousKey);
  const auto* set = std::get_if<wire::Set>(&request);
  return set != nullptr && set->key.find(kRolesKey) != std::string::npos;
}

bool is_store_client(std::string_view first_bytes) {
  return !first_bytes.empty() && static_cast<unsigned char>(first_bytes.front()) <= kLegacyCodeMax;
}

std::string describe_foreign(std::string_view first_bytes, const std::string& wanted) {
  for (const auto& signature : kSignatures) {
    const auto known = std::min(first_bytes.size(), signature.begin.size());
    const bool is_enough = known >= std::min(kSignatureBytesMin, signature.begin.size());
    if (is_enough && first_bytes.substr(0, known) == signature.begin.substr(0, known)) {
      return signature.name + (", not " + wanted);
    }
  }
  const bool expects_tls = first_bytes.substr(0, kTls.size()) == kTls;
  return expects_tls ? "expects TLS, which ddprun does not use here" : "";
}

}  // namespace ddprun::membership
