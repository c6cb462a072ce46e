// Requests to and answers of etcd in the JSON of its HTTP gateway (v3, since etcd 3.4). Pure;
// malformed answers return a Problem, and nothing throws. client.hpp performs the I/O.
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

using Revision = std::int64_t;  ///< revision of all data in etcd; grows with each change
using LeaseId = std::int64_t;   ///< 0: none

/// Reason why there is no answer.
struct Problem {
  std::string text;

  bool operator==(const Problem&) const = default;
};

template <typename T>
using Result = std::variant<T, Problem>;

struct KeyValue {
  std::string key;
  std::string value;
  Revision created = 0;   ///< revision in which the key was created
  Revision modified = 0;  ///< revision of its latest value
  LeaseId lease = 0;      ///< lease whose end deletes the key

  bool operator==(const KeyValue&) const = default;
};

/// The keys in [key, end); empty `end`: only `key`.
struct Range {
  std::string key;
  std::string end{};
};

/// Range of all keys with this prefix.
Range prefix_range(const std::string& prefix);

/// True if the key was created in this revision; 0: true if the key does not exist.
struct Condition {
  std::string key;
  Revision created = 0;
  /// If set, true if the key was last modified in this revision; 0: if it does not exist.
  std::optional<Revision> modified{};
};
struct Put {
  std::string key;
  std::string value;
  LeaseId lease = 0;
};

/// An atomic transaction. `puts` are performed if all conditions hold. `read` is answered in any
/// case, with the state after the transaction.
struct Transaction {
  std::vector<Condition> conditions{};
  std::vector<Put> puts{};
  std::optional<Range> read{};
};
struct TransactionAnswer {
  bool has_succeeded = false;
  Revision revision = 0;  ///< revision of the data read
  std::vector<KeyValue> keys{};

  bool operator==(const TransactionAnswer&) const = default;
};

struct Lease {
  LeaseId id = 0;
  std::chrono::seconds time{0};  ///< granted time, possibly more than requested

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
/// Remaining time; 0: the lease has ended.
Result<std::chrono::seconds> parse_renewal(std::string_view text);
Result<TransactionAnswer> parse_transaction(std::string_view text);
/// Parses a line of a watch. Returns true for a change, or if the watch has ended.
Result<bool> parse_watch(std::string_view line);
/// Parses and consumes the new lines of a watch's body. Returns true on a change, false if this is
/// not a watch, and nullopt if nothing has changed.
std::optional<bool> read_watch(std::string_view body, std::size_t& taken);

/// Returns the error text of an answer with an HTTP status other than 200.
std::string error_in(unsigned status, std::string_view text);

}  // namespace ddprun::etcd
