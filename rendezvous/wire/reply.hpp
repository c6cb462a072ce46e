// Replies of the TCPStore protocol as values, the same in all dialects. No I/O.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace ddprun::wire {

/// Replies of one byte. The meaning of a number depends on the request.
enum class Answer : std::uint8_t {
  ready = 0,             ///< CHECK: all keys exist; WAIT, BARRIER: ended
  not_ready = 1,         ///< CHECK: a key is missing
  wait_cancelled = 1,    ///< CANCEL_WAIT
  watch_registered = 3,  ///< WATCH_KEY
};

/// Kinds of changes to a watched key. The numbers are the wire format: never renumber them.
enum class Change : std::uint8_t { updated = 0, created = 1, deleted = 2, appended = 4 };

struct Nonce {  ///< PING
  std::uint32_t value = 0;
  bool operator==(const Nonce&) const = default;
};
struct Number {  ///< ADD, GETNUMKEYS, DELETE_KEY, QUEUE_LEN
  std::int64_t value = 0;
  bool operator==(const Number&) const = default;
};
struct Value {  ///< GET, COMPARE_SET
  std::string value;
  bool operator==(const Value&) const = default;
};
struct Values {  ///< MULTI_GET: concatenated, without a count
  std::vector<std::string> values;
  bool operator==(const Values&) const = default;
};
struct Popped {  ///< QUEUE_POP: `value` is sent only if the queue was not empty
  std::int64_t length_before = 0;
  std::string value;
  bool operator==(const Popped&) const = default;
};
struct Keys {           ///< LIST_KEYS
  std::string encoded;  ///< count and keys in wire format, as there may be a million
  bool operator==(const Keys&) const = default;
};
struct KeyChanged {
  Change change = Change::updated;
  std::string key, before, after;
  bool operator==(const KeyChanged&) const = default;
};
/// Sent to all clients that watch the key, which share it: there may be large values and many
/// clients.
struct Notification {
  explicit Notification(KeyChanged the_change)
      : changed(std::make_shared<const KeyChanged>(std::move(the_change))) {}
  std::size_t bytes() const {
    return changed->key.size() + changed->before.size() + changed->after.size();
  }
  std::shared_ptr<const KeyChanged> changed;  ///< never null
  bool operator==(const Notification& other) const { return *changed == *other.changed; }
};

using Reply = std::variant<Answer, Nonce, Number, Value, Values, Popped, Keys, Notification>;

/// Appends the bytes of `reply` to `out`.
void append_reply(std::string& out, Reply reply);

}  // namespace ddprun::wire
