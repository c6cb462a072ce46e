// Authentication of a run's values in etcd, which is not trusted: it can withhold or delete values
// and return older ones, but cannot change them. Pure; thread-safe.
//
//   sealed value := value "\nseal " nonce *("," nonce) " " tag
//   tag          := HMAC-SHA-256 over key name, nonces and value, under a key derived from the
//                   secret of the run
#pragma once

#include "rendezvous/security/crypto.hpp"
#include "rendezvous/security/secret.hpp"

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::etcd {

/// Random hexadecimal digits that identify a run among runs with the same name and secret.
using RunNonce = std::string;
inline constexpr std::size_t kRunNonceDigits = 32;

RunNonce draw_run_nonce();
bool is_run_nonce(std::string_view text);

/// Nonces of a run; the nonce of the sealing coordinator comes first. A run gets a new nonce when a
/// node is elected that has its data only from etcd.
using Lineage = std::vector<RunNonce>;
/// Maximum number of nonces; each results from the election of a node that had not joined the run.
inline constexpr std::size_t kLineageMax = 16;

/// Maximum bytes that a seal adds to a value.
inline constexpr std::size_t kSealBytesMax =
    7 + kLineageMax * (kRunNonceDigits + 1) + 2 * security::kDigestBytes;

struct OpenedValue {
  std::string value;
  Lineage lineage;  ///< 1 to kLineageMax nonces
};

class ValueSeal {
 public:
  explicit ValueSeal(const security::Secret& secret);

  std::string seal(std::string_view key, std::string_view value, const Lineage& lineage) const;

  /// Returns nullopt if the value was not sealed for this key with this secret.
  std::optional<OpenedValue> open(std::string_view key, std::string_view sealed) const;

 private:
  security::Key key_;
};

/// Returns true if the value ends with text in the format of a seal.
bool has_seal(std::string_view text);

/// Seals the values of a coordinator. The default, for an open run, seals nothing.
struct RunSeal {
  std::shared_ptr<const ValueSeal> seal{};
  Lineage lineage{};

  /// Returns the seal of a coordinator that continues from a record with these nonces. Agents that
  /// have only one of the nonces accept its values.
  RunSeal continuing(const Lineage& record) const;

  std::string operator()(const std::string& key, const std::string& value) const {
    return seal ? seal->seal(key, value, lineage) : value;
  }
};

}  // namespace ddprun::etcd
