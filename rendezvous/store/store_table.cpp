#include "rendezvous/store/store_table.hpp"

#include "rendezvous/wire/limits.hpp"

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

namespace ddprun {

namespace {

using wire::Change;

// Memory per node in addition to its strings: hash table, string objects, and a deque's first
// block.
constexpr std::size_t kValueOverhead = 128;
constexpr std::size_t kQueueOverhead = 704;
constexpr std::size_t kQueuedOverhead = sizeof(std::string);
constexpr std::size_t kOfferOverhead = 64;

std::size_t bytes_of_value(const std::string& key, const std::string& value) {
  return key.size() + value.size() + kValueOverhead;
}

/// Work per client that is woken or notified: a write() to its connection.
constexpr std::size_t kWorkOfClient = 16;

std::size_t work_of(std::size_t value_bytes) {
  return 1 + value_bytes / 1024;
}

}  // namespace

/// Effect of each request; created per request.
struct StoreTable::Apply {
  StoreTable& table;
  ClientId client;
  StoreOutcome outcome = {};

  void operator()(wire::Ping& ping) { reply(wire::Nonce{ping.nonce}); }

  void operator()(wire::Set& set) { put(set.key, std::move(set.value), Change::updated); }

  void operator()(wire::CompareSet& swap) {
    const std::string* const value = table.values_.find(swap.key);
    if (value == nullptr && !swap.expected.empty()) {
      // As in PyTorch, nothing is stored, and the answer is the value that the client expected.
      reply(wire::Value{std::move(swap.expected)});
    } else if (value != nullptr && *value != swap.expected) {
      reply(wire::Value{*value});
    } else if (put(swap.key, swap.desired, Change::updated)) {
      reply(wire::Value{std::move(swap.desired)});
    }
  }

  void operator()(wire::Get& get) { reply(wire::Value{table.value_or_empty(get.key)}); }

  void operator()(wire::Add& add) {
    const auto before = counter(add.key);
    if (!before) return;
    const std::int64_t sum = plus(*before, add.delta);
    if (!store(add.key, std::to_string(sum), Change::updated)) return;
    reply(wire::Number{sum});
    wake(table.waiting_.barrier_opened(add.key));
  }

  void operator()(wire::Check& check) {
    reply(table.has_all(check.keys) ? wire::Answer::ready : wire::Answer::not_ready);
  }

  void operator()(wire::Wait& wait) {
    auto& keys = wait.keys;
    std::erase_if(keys, [&](const std::string& key) { return table.has(key); });
    if (keys.empty() && !table.waiting_.has_incomplete_wait(client)) {
      reply(wire::Answer::ready);
    } else if (may_wait()) {
      if (!table.waiting_.extend_wait(client, keys)) return refuse_wait();
      if (table.waiting_.complete_wait(client)) reply(wire::Answer::ready);
    }
  }

  void operator()(wire::NumberOfKeys&) { reply(number(table.values_.size())); }

  void operator()(wire::WatchKey& watch) {
    if (!table.waiting_.watch(client, watch.key)) return refuse_wait();
    reply(wire::Answer::watch_registered);
  }

  void operator()(wire::DeleteKey& erase) {
    const auto value = table.values_.erase(erase.key);
    if (value) {
      table.bytes_ -= bytes_of_value(erase.key, *value);
      notify_watchers(Change::deleted, erase.key, *value, "");
    }
    reply(number(value ? 1 : 0));
  }

  void operator()(wire::Append& append) {
    std::string value = table.value_or_empty(append.key) + append.bytes;
    if (value.size() > wire::kValueBytesMax) {
      return refuse("APPEND to " + append.key + " would make its value " +
                    std::to_string(value.size()) + " bytes long (at most " +
                    std::to_string(wire::kValueBytesMax) + ")");
    }
    put(append.key, std::move(value), Change::appended);
  }

  void operator()(wire::MultiGet& get) {
    std::size_t bytes = 0;
    for (const auto& key : get.keys) {
      const std::string* const value = table.values_.find(key);
      bytes += sizeof(std::uint64_t) + (value == nullptr ? 0 : value->size());
    }
    if (is_too_long("MULTI_GET", bytes)) return;
    wire::Values values;
    values.values.reserve(get.keys.size());
    for (const auto& key : get.keys) values.values.push_back(table.value_or_empty(key));
    reply(std::move(values));
  }

  void operator()(wire::MultiSet& set) {
    for (auto& [key, value] : set.pairs) {
      if (!put(key, std::move(value), Change::updated)) return;
    }
  }

  void operator()(wire::CancelWait&) { reply(wire::Answer::wait_cancelled); }

  void operator()(wire::QueuePush& push) {
    const auto found = table.queues_.find(push.key);
    const bool is_new = found == table.queues_.end();
    const std::size_t bytes =
        push.value.size() + kQueuedOverhead + (is_new ? push.key.size() + kQueueOverhead : 0);
    if (!table.fits(bytes)) return refuse_bytes();
    table.bytes_ += bytes;
    table.queues_[push.key].push_back(std::move(push.value));
    // A value can be popped by one client only.
    outcome.replies = table.offer(push.key);
  }

  void operator()(wire::QueuePop& pop) {
    const auto found = table.queues_.find(pop.key);
    if (found == table.queues_.end()) return reply(wire::Popped{});
    auto& queue = found->second;
    wire::Popped popped{.length_before = static_cast<std::int64_t>(queue.size()),
                        .value = std::move(queue.front())};
    queue.pop_front();
    table.bytes_ -= popped.value.size() + kQueuedOverhead;
    if (queue.empty()) {
      table.bytes_ -= pop.key.size() + kQueueOverhead;
      table.queues_.erase(found);
    }
    reply(std::move(popped));
  }

  void operator()(wire::QueueLength& length) {
    const auto found = table.queues_.find(length.key);
    reply(number(found == table.queues_.end() ? 0 : found->second.size()));
  }

  void operator()(wire::ListKeys&) {
    if (is_too_long("LIST_KEYS", table.values_.keys_bytes())) return;
    reply(wire::Keys{table.values_.encoded_keys()});
  }

  void operator()(wire::Barrier& barrier) {
    const auto before = counter(barrier.key);
    if (!before || !may_wait()) return;
    const std::int64_t arrived = plus(*before, 1);
    const bool is_last = arrived >= barrier.world_size;
    if (!is_last && !table.waiting_.has_room(1)) return refuse_wait();
    if (!store(barrier.key, std::to_string(arrived), Change::updated)) return;
    if (is_last) {
      reply(wire::Answer::ready);
      wake(table.waiting_.barrier_opened(barrier.key));
    } else {
      table.waiting_.wait_at_barrier(client, barrier.key);
    }
  }

  // Shared by the requests.

  /// Stores a value and wakes the clients that wait for the key; returns false if refused.
  bool store(const std::string& key, std::string value, Change change_of_old);

  /// Returns the value as a number, 0 if it is absent; nullopt if refused.
  std::optional<std::int64_t> counter(const std::string& key);

  /// Adds in unsigned arithmetic, because the protocol's counters wrap around.
  static std::int64_t plus(std::int64_t a, std::int64_t b) {
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
  }

  /// Stores a value that was not counted by a barrier, which ends the barrier.
  bool put(const std::string& key, std::string value, Change change_of_old) {
    if (!store(key, std::move(value), change_of_old)) return false;
    wake(table.waiting_.barrier_opened(key));
    return true;
  }

  void notify_watchers(Change change, const std::string& key, const std::string& before,
                       const std::string& after);

  static wire::Number number(std::size_t value) {
    return wire::Number{static_cast<std::int64_t>(value)};
  }

  void reply(wire::Reply reply) { outcome.replies.push_back({client, std::move(reply)}); }

  void wake(const std::vector<ClientId>& clients) {
    for (const ClientId woken : clients) outcome.replies.push_back({woken, wire::Answer::ready});
  }

  void refuse(std::string why) { outcome.refusal = std::move(why); }

  void refuse_bytes() {
    refuse("the store is full (" + std::to_string(table.limits_.bytes_max) + " bytes at most)");
  }

  void refuse_wait() {
    refuse("the store has too many waits and watches (" + std::to_string(table.limits_.waits_max) +
           " at most)");
  }

  /// Refuses a second wait, whose answers would be ambiguous; no regular client sends one.
  bool may_wait() {
    if (table.waiting_.is_waiting(client)) refuse("began a second wait before the first was over");
    return outcome.refusal.empty();
  }

  bool is_too_long(const char* operation, std::size_t reply_bytes) {
    if (reply_bytes <= table.limits_.unread_bytes_max) return false;
    refuse(std::string(operation) + " asks for " + std::to_string(reply_bytes) +
           " bytes (at most " + std::to_string(table.limits_.unread_bytes_max) + ")");
    return true;
  }
};

bool StoreTable::Apply::store(const std::string& key, std::string value, Change change_of_old) {
  std::string* const old = table.values_.find(key);
  const std::size_t old_bytes = old == nullptr ? 0 : bytes_of_value(key, *old);
  const std::size_t new_bytes = bytes_of_value(key, value);
  if (new_bytes > old_bytes && !table.fits(new_bytes - old_bytes)) {
    refuse_bytes();
    return false;
  }
  table.bytes_ = table.bytes_ - old_bytes + new_bytes;
  if (old == nullptr) {
    notify_watchers(Change::created, key, "", value);
    table.values_.add(key, std::move(value));
    wake(table.waiting_.key_created(key));
  } else {
    notify_watchers(change_of_old, key, *old, value);
    *old = std::move(value);
  }
  return true;
}

std::optional<std::int64_t> StoreTable::Apply::counter(const std::string& key) {
  const std::string* const value = table.values_.find(key);
  if (value == nullptr) return 0;
  const auto number = parse_counter(*value);
  if (!number) refuse("adds to " + key + ", whose value is not a number");
  return number;
}

void StoreTable::Apply::notify_watchers(Change change, const std::string& key,
                                        const std::string& before, const std::string& after) {
  const auto* watchers = table.waiting_.watchers(key);
  if (watchers == nullptr) return;
  const wire::Notification notification(wire::KeyChanged{change, key, before, after});
  for (const ClientId watcher : *watchers) outcome.replies.push_back({watcher, notification});
}

std::size_t StoreTable::work_at(const std::string& key) const {
  const std::string* const value = values_.find(key);
  if (value != nullptr) return work_of(value->size());
  const auto queue = queues_.find(key);
  return queue == queues_.end() ? 1 : work_of(queue->second.front().size());
}

std::size_t StoreTable::work_of_change(const std::string& key, std::size_t value_bytes) const {
  const std::size_t work = work_at(key) + work_of(value_bytes);
  const auto* watchers = waiting_.watchers(key);
  return work + waiting_.clients_at(key) * kWorkOfClient +
         (watchers == nullptr ? 0 : watchers->size() * work);
}

bool ends_wait(const wire::Request& request, wire::Dialect dialect) {
  return dialect == wire::Dialect::legacy || std::holds_alternative<wire::CancelWait>(request);
}

bool StoreTable::apply_part(ClientId client, wire::Request& request, wire::Dialect dialect,
                            std::size_t keys_max) {
  // End the wait first, even a short one: wait_part() must not extend it.
  if (ends_wait(request, dialect) && waiting_.is_waiting(client)) {
    waiting_.cancel(client, keys_max);
    return true;
  }
  if (auto* const check = std::get_if<wire::Check>(&request))
    return check_part(check->keys, keys_max);
  if (auto* const wait = std::get_if<wire::Wait>(&request))
    return wait_part(client, wait->keys, keys_max);
  return false;
}

bool StoreTable::check_part(std::vector<std::string>& keys, std::size_t keys_max) const {
  if (keys.size() <= keys_max) return false;
  const auto part = keys.end() - static_cast<std::ptrdiff_t>(keys_max);
  if (has_all({part, keys.end()})) {
    keys.erase(part, keys.end());
    return true;
  }
  keys.erase(keys.begin(), part);  // apply() computes the same answer
  return false;
}

bool StoreTable::wait_part(ClientId client, std::vector<std::string>& keys, std::size_t keys_max) {
  if (keys.size() <= keys_max) return false;
  const auto part = keys.end() - static_cast<std::ptrdiff_t>(keys_max);
  const auto present =
      std::partition(part, keys.end(), [&](const std::string& key) { return !has(key); });
  if (part == present ||
      (!waiting_.is_waiting(client) && waiting_.extend_wait(client, {part, present}))) {
    keys.erase(part, keys.end());
    return true;
  }
  keys.erase(keys.begin(), part);  // apply() refuses these, too
  return false;
}

StoreOutcome StoreTable::apply(ClientId client, wire::Request request, wire::Dialect dialect) {
  if (ends_wait(request, dialect) && !waiting_.has_incomplete_wait(client)) waiting_.cancel(client);
  Apply apply{*this, client};
  std::vector<Delivery> woken;
  if (!offers_.empty()) {
    const auto* pop = std::get_if<wire::QueuePop>(&request);
    woken = end_offer(client, pop == nullptr ? nullptr : &pop->key);
  }
  std::visit(apply, request);
  auto& replies = apply.outcome.replies;
  replies.insert(replies.begin(), woken.begin(), woken.end());
  return std::move(apply.outcome);
}

std::vector<Delivery> StoreTable::drop(ClientId client, std::size_t keys_max) {
  waiting_.drop(client, keys_max);
  return end_offer(client, nullptr);
}

std::vector<Delivery> StoreTable::offer(const std::string& queue) {
  std::vector<Delivery> replies;
  for (const ClientId woken : waiting_.key_created(queue, 1)) {
    offers_[woken] = queue;
    bytes_ += queue.size() + kOfferOverhead;
    replies.push_back({woken, wire::Answer::ready});
  }
  return replies;
}

std::vector<Delivery> StoreTable::end_offer(ClientId client, const std::string* popped_queue) {
  const auto offer_made = offers_.extract(client);
  if (offer_made.empty()) return {};
  const std::string& queue = offer_made.mapped();
  bytes_ -= queue.size() + kOfferOverhead;
  const bool is_taken = popped_queue != nullptr && *popped_queue == queue;
  if (is_taken || !queues_.contains(queue)) return {};
  return offer(queue);
}

void StoreTable::clear() {
  values_ = {};  // clear() keeps the buckets
  queues_ = {};
  waiting_.clear();
  offers_.clear();
  bytes_ = 0;
}

bool StoreTable::has(const std::string& key) const {
  return values_.contains(key) || (!queues_.empty() && queues_.contains(key));
}

bool StoreTable::has_all(std::span<const std::string> keys) const {
  return std::all_of(keys.begin(), keys.end(), [&](const auto& key) { return has(key); });
}

std::string StoreTable::value_or_empty(const std::string& key) const {
  const std::string* const value = values_.find(key);
  return value == nullptr ? std::string() : *value;
}

std::optional<std::int64_t> parse_counter(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(" \t\n\v\f\r"), text.size()));
  // strtoll takes a sign of either kind, from_chars only a minus.
  if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc()) return std::nullopt;
  return value;
}

}  // namespace ddprun
