// Contents of the store and the effect of each request: keys, values, queues, and waiting clients.
// Pure: no I/O, clock or thread; returns the replies to send. The server (store_server.hpp)
// performs the I/O.
#pragma once

#include "rendezvous/store/key_values.hpp"
#include "rendezvous/store/store_limits.hpp"
#include "rendezvous/store/waiting_clients.hpp"
#include "rendezvous/wire/reply.hpp"
#include "rendezvous/wire/request.hpp"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace ddprun {

/// A reply and its receiver. Replies to one client are in sending order.
struct Delivery {
  ClientId client = 0;
  wire::Reply reply;

  bool operator==(const Delivery&) const = default;
};

struct StoreOutcome {
  std::vector<Delivery> replies;  ///< to the caller and to clients whose wait has ended

  /// Reason to close the caller's connection, for the operator; empty to keep it. The request then
  /// has had no effect, except that of a MULTI_SET up to the refused pair.
  std::string refusal;

  bool operator==(const StoreOutcome&) const = default;
};

/// Returns true if the request ends the pending wait of its client. Legacy clients cannot cancel a
/// wait: after a timeout they send their next request and would read a late answer to the wait as
/// its reply.
bool ends_wait(const wire::Request& request, wire::Dialect dialect);

class StoreTable {
 public:
  explicit StoreTable(const StoreLimits& limits) : limits_(limits), waiting_(limits.waits_max) {}

  /// Performs a part of a long request to reduce the work of apply(): tests or adds at most
  /// `keys_max` keys of a CHECK or WAIT and removes them from the request, or removes that many
  /// keys of the wait that the request ends. Repeat while it returns true, then call apply(); other
  /// clients' requests may come in between.
  bool apply_part(ClientId client, wire::Request& request, wire::Dialect dialect,
                  std::size_t keys_max);

  /// Performs one request of a client.
  StoreOutcome apply(ClientId client, wire::Request request, wire::Dialect dialect);

  /// Estimates the work of reading the value of a key, and of storing `value_bytes` there and
  /// notifying the clients at the key, in the units of request_work().
  std::size_t work_at(const std::string& key) const;
  std::size_t work_of_change(const std::string& key, std::size_t value_bytes) const;

  /// Estimates the work of ending the client's wait, in the same units.
  std::size_t work_of_cancel(ClientId client) const { return waiting_.keys_awaited(client); }

  /// Ends the waits and watches of a disconnected client. Removes at most `keys_max` of their keys;
  /// repeat while has_keys(). If the client was woken for a queue value that it has not popped,
  /// returns the replies that wake the queue's next client.
  std::vector<Delivery> drop(ClientId client, std::size_t keys_max = SIZE_MAX);
  bool has_keys(ClientId client) const { return waiting_.has_keys(client); }

  /// Deletes all contents.
  void clear();

  std::size_t number_of_keys() const { return values_.size(); }
  std::size_t number_of_waits() const { return waiting_.size(); }

  /// Returns the approximate memory in use.
  std::size_t bytes() const { return bytes_ + waiting_.bytes(); }

 private:
  struct Apply;

  bool has(const std::string& key) const;
  bool has_all(std::span<const std::string> keys) const;
  bool check_part(std::vector<std::string>& keys, std::size_t keys_max) const;
  bool wait_part(ClientId client, std::vector<std::string>& keys, std::size_t keys_max);
  std::string value_or_empty(const std::string& key) const;
  bool fits(std::size_t additional_bytes) const {
    return bytes() + additional_bytes <= limits_.bytes_max;
  }

  /// Wakes one client that waits for `queue`, which is not empty.
  std::vector<Delivery> offer(const std::string& queue);

  /// Ends the offer to `client`. Wakes the next client unless `client` has popped the offered
  /// queue.
  std::vector<Delivery> end_offer(ClientId client, const std::string* popped_queue);

  StoreLimits limits_;
  KeyValues values_;
  std::unordered_map<std::string, std::deque<std::string>> queues_;  ///< non-empty queues by key
  WaitingClients waiting_;
  /// queue for which a client was woken last, by client
  std::unordered_map<ClientId, std::string> offers_;
  std::size_t bytes_ = 0;  ///< memory of values_, queues_ and offers_
};

/// Parses a counter like C's strtoll: leading blanks and trailing junk are allowed. Returns nullopt
/// if there is no number or it is out of range.
std::optional<std::int64_t> parse_counter(std::string_view text);

}  // namespace ddprun
