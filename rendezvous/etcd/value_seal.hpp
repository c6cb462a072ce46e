// Authentication of the values of a run in etcd, which is not trusted: it can withhold or delete
// them and return older ones, but not change them. Pure; any thread may call.
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

/// Identifies a run among those of the same name and secret: random, as hexadecimal digits.
using RunNonce = std::string;
inline constexpr std::size_t kRunNonceDigits = 32;

RunNonce draw_run_nonce();
bool is_run_nonce(std::string_view text);

/// Nonces of a run; the sealing coordinator's is first. A run gets a new one when a node is elected
/// that knows the run only from etcd.
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

/// True if the value ends with the form of a seal.
bool has_seal(std::string_view text);

/// Seals the values of a coordinator; by default, for an open run, seals nothing.
struct RunSeal {
  std::shared_ptr<const ValueSeal> seal{};
  Lineage lineage{};

  /// The seal of a coordinator that continues from a record with these nonces: agents that know
  /// only one of them accept its values.
  RunSeal continuing(const Lineage& record) const;

  std::string operator()(const std::string& key, const std::string& value) const {
    return seal ? seal->seal(key, value, lineage) : value;
  }
};

}  // namespace ddprun::etcd
