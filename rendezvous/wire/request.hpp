// Requests of the TCPStore protocol as values. One struct for each operation, the same in all
// dialects; only their codes differ (operations.hpp). No I/O. Thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace ddprun::wire {

/// Table of operation codes that a connection uses; determined by its first bytes.
enum class Dialect {
  undecided,  ///< not enough bytes have been read
  legacy,     ///< PyTorch up to 2.0: no greeting, codes 0 to 8
  modern,     ///< PyTorch since 2.2: begins with VALIDATE and its magic
};

// Names follow the protocol. Keys are as on the wire, with the leading "/".

struct Ping {
  std::uint32_t nonce = 0;
  bool operator==(const Ping&) const = default;
};
struct Set {
  std::string key, value;
  bool operator==(const Set&) const = default;
};
struct CompareSet {
  std::string key, expected, desired;
  bool operator==(const CompareSet&) const = default;
};
struct Get {
  std::string key;
  bool operator==(const Get&) const = default;
};
struct Add {
  std::string key;
  std::int64_t delta = 0;
  bool operator==(const Add&) const = default;
};
struct Check {
  std::vector<std::string> keys;
  bool operator==(const Check&) const = default;
};
struct Wait {
  std::vector<std::string> keys;
  bool operator==(const Wait&) const = default;
};
struct NumberOfKeys {
  bool operator==(const NumberOfKeys&) const = default;
};
struct WatchKey {
  std::string key;
  bool operator==(const WatchKey&) const = default;
};
struct DeleteKey {
  std::string key;
  bool operator==(const DeleteKey&) const = default;
};
struct Append {
  std::string key, bytes;
  bool operator==(const Append&) const = default;
};
struct MultiGet {
  std::vector<std::string> keys;
  bool operator==(const MultiGet&) const = default;
};
struct MultiSet {
  std::vector<std::pair<std::string, std::string>> pairs;  ///< key, value
  bool operator==(const MultiSet&) const = default;
};
struct CancelWait {
  bool operator==(const CancelWait&) const = default;
};
struct QueuePush {
  std::string key, value;
  bool operator==(const QueuePush&) const = default;
};
struct QueuePop {
  std::string key;
  bool operator==(const QueuePop&) const = default;
};
struct QueueLength {
  std::string key;
  bool operator==(const QueueLength&) const = default;
};
struct ListKeys {
  bool operator==(const ListKeys&) const = default;
};
struct Barrier {
  std::string key;
  std::int64_t world_size = 0;
  bool operator==(const Barrier&) const = default;
};

/// The order of the alternatives is that of the rows in operations.hpp.
using Request = std::variant<Ping, Set, CompareSet, Get, Add, Check, Wait, NumberOfKeys, WatchKey,
                             DeleteKey, Append, MultiGet, MultiSet, CancelWait, QueuePush, QueuePop,
                             QueueLength, ListKeys, Barrier>;

/// Appends the bytes of `request` to `out`. Throws Error{Errc::usage} if the dialect lacks the
/// operation.
void append_request(std::string& out, const Request& request, Dialect dialect);

/// Appends the greeting of the modern dialect to `out`.
void append_validate(std::string& out);

/// Returns the name in the protocol's description, such as "SET" or "GETNUMKEYS".
const char* operation_name(const Request& request);

}  // namespace ddprun::wire
