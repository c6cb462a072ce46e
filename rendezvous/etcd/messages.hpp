// What is asked of etcd and what it answers, in the JSON of its HTTP gateway (v3, from etcd 3.4).
// Pure; malformed answers give a problem and never throw. How they travel is in client.hpp.
//
// The gateway leaves out fields that are zero, false or empty, and writes 64-bit integers as text.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace ddprun::etcd {

using Revision = std::int64_t;  ///< of the whole of etcd's data; grows with each change
using LeaseId = std::int64_t;   ///< 0: none

/// Why there is no answer, in words.
struct Problem {
  std::string text;

  bool operator==(const Problem&) const = default;
};

template <typename T>
using Result = std::variant<T, Problem>;

struct KeyValue {
  std::string key;
  std::string value;
  Revision created = 0;   ///< the revision with which the key came into being
  Revision modified = 0;  ///< the revision of its latest value
  LeaseId lease = 0;      ///< at whose end the key vanishes

  bool operator==(const KeyValue&) const = default;
};

/// The keys from `key` to before `end`; empty `end`: this key alone.
struct Range {
  std::string key;
  std::string end{};
};

/// All keys that begin like this.
Range prefix_range(const std::string& prefix);

/// A key that exists since this revision; 0: that does not exist.
struct Condition {
  std::string key;
  Revision created = 0;
  /// If set, instead: a key whose latest value is of this revision; 0: that does not exist.
  std::optional<Revision> modified{};
};
struct Put {
  std::string key;
  std::string value;
  LeaseId lease = 0;
};

/// All at once or not at all: what to do if all conditions hold. What `read` names is answered in
/// either case, as it is afterwards.
struct Transaction {
  std::vector<Condition> conditions{};
  std::vector<Put> puts{};
  std::optional<Range> read{};
};
struct TransactionAnswer {
  bool has_succeeded = false;
  Revision revision = 0;  ///< of the data that were read
  std::vector<KeyValue> keys{};

  bool operator==(const TransactionAnswer&) const = default;
};

struct Lease {
  LeaseId id = 0;
  std::chrono::seconds time{0};  ///< for which it was given, maybe more than was asked for

  bool operator==(const Lease&) const = default;
};

// Bodies of requests.
std::string lease_request(std::chrono::seconds time);
std::string renewal_request(LeaseId lease);
std::string revocation_request(LeaseId lease);
std::string transaction_request(const Transaction& transaction);
std::string watch_request(const Range& range, Revision first);

// Bodies of answers.
Result<Lease> parse_lease(std::string_view text);
/// The time from now; 0: the lease has ended.
Result<std::chrono::seconds> parse_renewal(std::string_view text);
Result<TransactionAnswer> parse_transaction(std::string_view text);
/// A line of a watch: whether it tells that a change has come, or that no more will.
Result<bool> parse_watch(std::string_view line);
/// What the lines tell that have come of a watch's endless body since the last call, which are
/// taken: true, something has changed; false, this is no watch; nothing, no change as yet.
std::optional<bool> read_watch(std::string_view body, std::size_t& taken);

/// What an answer with an HTTP status other than 200 says.
std::string error_in(unsigned status, std::string_view text);

}  // namespace ddprun::etcd
