// What the store holds and what each request does to it: keys, values, queues, and the clients that
// wait. Pure: no I/O, no clock, no thread; the replies to send are the return value. The server
// (store_server.hpp) moves the bytes.
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

/// A reply and the client that must get it. Replies to one client are in the order to be sent.
struct Delivery {
  ClientId client = 0;
  wire::Reply reply;

  bool operator==(const Delivery&) const = default;
};

struct StoreOutcome {
  std::vector<Delivery> replies;  ///< to the caller and to the clients whose wait is over

  /// Why the caller's connection must be closed, for the operator; empty if it goes on. The request
  /// then has had no effect, except that of a MULTI_SET up to the refused pair.
  std::string refusal;

  bool operator==(const StoreOutcome&) const = default;
};

/// True if the request ends the pending wait of the client that sends it. Legacy clients cannot
/// cancel a wait: one that has timed out just sends its next request, and would take a late answer
/// to the wait for the answer to that.
bool ends_wait(const wire::Request& request, wire::Dialect dialect);

class StoreTable {
 public:
  explicit StoreTable(const StoreLimits& limits) : limits_(limits), waiting_(limits.waits_max) {}

  /// Carries out a part of a long request, so that apply() has less to do: tests or adds at most
  /// `keys_max` of the keys of a CHECK or WAIT, which are removed from the request, or removes so
  /// many keys of the wait that the request ends. To be repeated while it returns true, before
  /// apply(); other clients' requests may come in between.
  bool apply_part(ClientId client, wire::Request& request, wire::Dialect dialect,
                  std::size_t keys_max);

  /// Carries out one request of a client.
  StoreOutcome apply(ClientId client, wire::Request request, wire::Dialect dialect);

  /// Estimates the work of reading the value of a key, and of storing `value_bytes` there and
  /// notifying the clients at the key, in the units of request_work().
  std::size_t work_at(const std::string& key) const;
  std::size_t work_of_change(const std::string& key, std::size_t value_bytes) const;

  /// Estimates the work of ending the client's wait, in the same units.
  std::size_t work_of_cancel(ClientId client) const { return waiting_.keys_awaited(client); }

  /// Ends the waits and watches of a client that has left. Removes at most `keys_max` of their
  /// keys: to be repeated while it has_keys(). If the client was woken for a value in a queue that
  /// it has not taken, the next client that waits for the queue is woken: the replies.
  std::vector<Delivery> drop(ClientId client, std::size_t keys_max = SIZE_MAX);
  bool has_keys(ClientId client) const { return waiting_.has_keys(client); }

  /// Forgets everything.
  void clear();

  std::size_t number_of_keys() const { return values_.size(); }
  std::size_t number_of_waits() const { return waiting_.size(); }

  /// Memory held, about.
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

  /// Wakes one of those who wait for `queue`, for a value that is in it.
  std::vector<Delivery> offer(const std::string& queue);

  /// Ends what `client` was offered. Unless it takes a value from that queue by what it does next,
  /// the next client is woken.
  std::vector<Delivery> end_offer(ClientId client, const std::string* popped_queue);

  StoreLimits limits_;
  KeyValues values_;
  std::unordered_map<std::string, std::deque<std::string>> queues_;  ///< none of them empty
  WaitingClients waiting_;
  std::unordered_map<ClientId, std::string> offers_;  ///< queues; to clients that were woken last
  std::size_t bytes_ = 0;                             ///< of values_, queues_ and offers_
};

/// The value of a counter as C's strtoll reads it: blanks in front and junk behind are allowed.
/// Nothing if there is no number or it is out of range.
std::optional<std::int64_t> parse_counter(std::string_view text);

}  // namespace ddprun
